"""What is trained next, from trainings that are given; no process and no storage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from optimizers.errors import UsageError
from optimizers.search.budget import Budget
from optimizers.search.outcome import Cost, Outcome, Part, Settings, State, Training
from optimizers.search.plan import BeginProof, Finished, Situation, Suggest, Train, Wait, next_step

OWN: Settings = {"lr": None}
OTHER: Settings = {"lr": "0.1"}
PROVED = BeginProof(OTHER, 3)


def training(
    settings: Settings,
    seconds: float = 10.0,
    *,
    state: State | None = State.REACHED,
    part: Part = Part.SEARCH,
    block: int | None = None,
    host: str = "here",
    joules: float | None = None,
) -> Training:
    reached = state is State.REACHED
    outcome = None
    if state is not None:
        value = seconds if reached else None
        outcome = Outcome(state, Cost(seconds, joules), value, why="" if reached else "it broke")
    limit = Cost(seconds)
    return Training(part, 0, settings, 0, host, 0.0, limit, block, "trials/0000", outcome)


def situation(trainings: Sequence[Training], seconds: float = 1000.0, **more: object) -> Situation:
    return Situation(trainings, Budget(seconds), math.inf, "here", 0.0, **more)  # type: ignore[arg-type]


def test_the_default_is_first_and_others_wait_for_it() -> None:
    first = next_step(situation([]))
    assert isinstance(first, Suggest) and first.own and first.limits.cost.seconds == 1000.0
    elsewhere = training(OWN, state=None, host="there")
    assert isinstance(next_step(situation([elsewhere])), Wait)
    lost = replace(situation([elsewhere]), now=1e6)  # long beyond its limit
    assert isinstance(next_step(lost), Suggest)


def test_a_default_that_fails_or_has_no_time_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"it broke \(its log: trials/0000/log.txt"):
        next_step(situation([training(OWN, state=State.FAILED)]))
    short = training(OWN, 90.0, state=State.OUT_OF_BUDGET)
    with pytest.raises(UsageError, match="too small for two trials"):
        next_step(situation([short], 100.0))
    assert isinstance(next_step(situation([short], 1000.0)), Suggest)  # a larger budget goes on


def test_a_budget_without_room_for_the_proof_says_what_is_needed() -> None:
    with pytest.raises(UsageError, match=r"one training took 10\.0 s; give at least 94\.0 s"):
        next_step(situation([training(OWN)], 85.0))
    assert isinstance(next_step(situation([training(OWN)], 94.0)), Suggest)


def test_one_that_hangs_is_stopped_before_its_share_of_the_budget_ends() -> None:
    step = next_step(situation([training(OWN)]))
    assert isinstance(step, Suggest)
    assert 10.0 < step.limits.hung_s < step.limits.cost.seconds <= 1000.0
    assert 10.0 < step.limits.value < 20.0  # pruned above what the best takes at most


def test_both_sides_of_a_pair_are_trained_by_the_same_host() -> None:
    before = [training(OWN), training(OTHER, 5.0)]
    trial = training(OWN, part=Part.PROOF, block=0)
    step = next_step(situation([*before, trial], proof=PROVED))
    assert isinstance(step, Train) and (step.settings, step.block) == (OTHER, 0)
    theirs = replace(trial, host="there")
    step = next_step(situation([*before, theirs], proof=PROVED))
    assert isinstance(step, Train) and step.block == 1 and step.settings == OTHER


def test_a_training_of_the_proof_that_was_interrupted_is_done_again() -> None:
    before = [training(OWN), training(OTHER, 5.0)]
    killed = training(OWN, part=Part.PROOF, block=0, state=State.INTERRUPTED)
    step = next_step(situation([*before, killed], proof=PROVED))
    assert isinstance(step, Train) and (step.settings, step.block) == (OWN, 0)


def test_joules_limit_as_seconds_do() -> None:
    own = training(OWN, joules=100.0)
    given = replace(situation([own]), budget=Budget(math.inf, 800.0))
    with pytest.raises(UsageError, match="give at least"):
        next_step(given)
    step = next_step(replace(given, budget=Budget(math.inf, 2000.0)))
    assert isinstance(step, Suggest) and 100.0 < (step.limits.cost.joules or 0.0) <= 400.0


@pytest.mark.parametrize("joules", [None, 100.0])
def test_no_more_is_kept_for_the_proof_than_its_pairs_take(joules: float | None) -> None:
    """Of a budget for 1000 trainings: 18 for eight pairs, not 300, and 294 for the rounds."""
    trained = [training(OWN, joules=joules)] + [
        training({"lr": str(at)}, joules=joules) for at in range(679)
    ]
    given = situation(trained, 10_000.0)
    if joules is not None:
        given = replace(given, budget=Budget(math.inf, 100_000.0))
    assert isinstance(next_step(given), Suggest)
    more = [training({"lr": "0.5"}, joules=joules)] * 20
    step = next_step(replace(given, trainings=[*trained, *more]))
    assert isinstance(step, Train) and step.part is Part.AGAIN


def test_what_would_leave_no_time_for_its_end_is_not_begun() -> None:
    tried = [training(OWN), training(OTHER, 5.0), training(OTHER, 5.0, part=Part.AGAIN)]
    proof = [training(side, part=Part.PROOF, block=0) for side in (OWN, OTHER)]
    given = situation([*tried, *proof], 52.0, proof=PROVED)
    assert isinstance(next_step(given), Finished)  # 15 s for a pair, and 12 are left
    given = replace(given, budget=Budget(60.0))
    assert isinstance(next_step(given), Train)
    assert isinstance(next_step(replace(given, ending_s=3.0)), Finished)
