"""Verdicts: on simulated campaigns of known truth, and in the cases where none may be given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from probe.compare.comparison import compare
from probe.compare.groups import Campaign
from probe.compare.model import Comparison
from probe.compare.run_record import EARLY, LATE, Joint, Stage, Trial, Use
from probe.compare.sides import Question, Side
from probe.model import Phase, Provenance
from probe.target import Target
from tests.fakes.simulated_campaign import Technique, campaign, expected_cost_j, expected_j

NULL, CHEAPER, FEWER = Technique(), Technique(seconds=0.9), Technique(samples=0.9)
LOSS = Question(Target("loss", False, 1.0), metric="loss", higher=False)
WORK = Question(metric="loss", higher=False)


def simulated(technique: Technique, blocks: int, seed: int, question: Question) -> Comparison:
    rng = np.random.default_rng([seed, blocks])
    base, other = campaign(technique, blocks, rng, equal_work=question.target is None)
    return compare(Side("base", base), [Side("other", other)], question).comparisons[0]


def share(comparisons: list[Comparison], holds: Any) -> float:
    return sum(map(holds, comparisons)) / len(comparisons)


@pytest.mark.parametrize("blocks", [3, pytest.param(5, marks=pytest.mark.full)])
def test_the_null_technique(blocks: int) -> None:
    """Small and seeded; benchmarks/energy/gains.py has 2,000 of each."""
    comparisons = [simulated(NULL, blocks, seed, LOSS) for seed in range(150)]
    assert share(comparisons, lambda c: c.energy_j.verdict == "gain") <= 0.055
    assert (
        share(
            comparisons,
            lambda c: any(
                getattr(cell, key) != "no evidence"
                for cell in c.cells
                for key in ("verdict", "progress_verdict", "cost_verdict", "time_verdict")
            ),
        )
        <= 0.08
    )
    held = share(comparisons, lambda c: c.energy_j.interval[0] <= 0 <= c.energy_j.interval[1])
    assert 0.90 <= held <= 1.0


@pytest.mark.parametrize("question", [LOSS, WORK])
def test_a_cheaper_sample_is_found_as_cost(question: Question) -> None:
    comparisons = [simulated(CHEAPER, 3, seed, question) for seed in range(100)]
    truth = expected_j(NULL, equal_work=True) - expected_j(CHEAPER, equal_work=True)
    truth = truth if question is WORK else expected_cost_j(CHEAPER)
    key = "interval" if question is WORK else "cost_interval"
    held = share(
        comparisons, lambda c: getattr(c.energy_j, key)[0] <= truth <= getattr(c.energy_j, key)[1]
    )
    assert 0.88 <= held <= 1.0
    assert share(comparisons, lambda c: c.energy_j.cost_verdict == "gain") >= 0.72
    for c in comparisons:
        cells = [cell.energy_j for cell in c.cells if cell.energy_j is not None]
        assert sum(cells) == pytest.approx(c.energy_j.gain, rel=1e-9)
        assert sum(cell.time_s for cell in c.cells) == pytest.approx(
            c.time_s.gain, rel=1e-9, abs=1e-9
        )
        assert c.energy_j.progress + c.energy_j.cost == pytest.approx(c.energy_j.gain, rel=1e-9)


def test_fewer_samples_are_no_gain_of_cost_anywhere() -> None:
    comparisons = [simulated(FEWER, 5, seed, LOSS) for seed in range(100)]
    assert (
        share(comparisons, lambda c: any(cell.cost_verdict == "gain" for cell in c.cells)) <= 0.06
    )
    assert share(comparisons, lambda c: c.energy_j.progress_verdict == "gain") >= 0.2


def test_another_class_is_no_gain() -> None:
    """The same draws with every span called memory-bound: nothing moves but the remark."""
    plain, moved = (simulated(technique, 3, 11, WORK) for technique in (NULL, Technique(bound=0.5)))
    assert plain.energy_j == moved.energy_j and plain.cells == moved.cells
    assert not plain.moved and {row.phase for row in moved.moved} == {
        "forward",
        "backward",
        "recompute",
    }


# -- where no verdict may be given -----------------------------------------------------------


def run(block: int, joules: float, **more: Any) -> Trial:
    """A third of the samples early; forward and optimizer."""
    stages = {
        stage: Stage(
            part * 3000,
            {
                "forward": Use(part * 30, part * joules * 0.8),
                "optimizer": Use(part * 10, part * joules * 0.2),
            },
        )
        for stage, part in ((EARLY, 1 / 3), (LATE, 2 / 3))
    }
    given = {"stages": stages, "quality": 1.0, "meters": frozenset({"u"}), "memory": {"peak": 1e9}}
    return Trial(id=f"{joules}-{block}", block=str(block), **(given | more))


def held(
    base: list[Trial],
    other: list[Trial],
    question: Question = WORK,
    problems: list[str] | None = None,
) -> Comparison:
    comparison = compare(Side("base", base), [Side("other", other)], question, [problems or []])
    return comparison.comparisons[0]


BASE = [run(i, j) for i, j in enumerate((1000.0, 1010.0, 990.0))]
BETTER = [run(i, j) for i, j in enumerate((800.0, 805.0, 797.0))]
WORSE = [run(i, j) for i, j in enumerate((1200.0, 1215.0, 1190.0))]


def test_a_gain_a_loss_and_their_shares() -> None:
    gain, loss = held(BASE, BETTER), held(BASE, WORSE)
    assert gain.verdict == "gain" and loss.verdict == "loss"
    for each in (gain, loss):
        assert each.four["memory"] is None  # not separated
        shares = [share for share in each.four.values() if share is not None]
        assert sum(shares) == pytest.approx(1.0)
        assert sum(each.four_rest.values()) == pytest.approx(each.four["rest"])
        assert each.four["early"] == pytest.approx(1 / 3)
        assert sum(cell.share for cell in each.cells) == pytest.approx(1.0)
    assert held(BASE, [replace(t, id=t.id + "b") for t in BASE]).four is None


def test_one_run_a_side_has_no_interval_and_no_verdict() -> None:
    comparison = held([BASE[0]], [BETTER[0]])
    assert comparison.verdict == "no evidence"
    assert comparison.reason == "one run a side: no interval; a verdict needs 2 or more runs a side"
    assert comparison.energy_j.gain == pytest.approx(200.0) and comparison.energy_j.interval is None
    assert comparison.four is None and all(cell.share is None for cell in comparison.cells)
    assert all(
        cell.energy_j_interval is None and cell.time_s_interval is None for cell in comparison.cells
    )
    assert all(row.gain_j_interval is None and row.share is None for row in comparison.phases)
    several = held([BASE[0]], BETTER)
    assert several.verdict == "no evidence" and several.reason.startswith("one run of base")


def test_two_runs_a_side_are_enough_for_a_verdict() -> None:
    assert held(BASE[:2], BETTER[:2]).verdict == "gain"


def test_no_interval_has_zero_width() -> None:
    """Every base run used the same joules as any other: nothing shows how runs differ."""
    base, other = ([run(i, joules) for i in range(3)] for joules in (1000.0, 800.0))
    comparison = held(base, other)
    limits = [
        comparison.energy_j.interval,
        comparison.time_s.interval,
        comparison.memory_bytes.interval,
    ]
    limits += [
        each for cell in comparison.cells for each in (cell.energy_j_interval, cell.share_interval)
    ]
    limits += [
        each for row in comparison.phases for each in (row.gain_j_interval, row.gain_s_interval)
    ]
    assert all(each is None or each[0] < each[1] for each in limits)
    assert comparison.time_s.interval is None and comparison.verdict == "gain"


def test_worse_quality_is_no_evidence() -> None:
    question = Question(metric="accuracy", higher=True)
    base = [replace(t, quality=0.90) for t in BASE]
    comparison = held(base, [replace(t, quality=0.89) for t in BETTER], question)
    assert (
        comparison.verdict
        == comparison.energy_j.verdict
        == comparison.time_s.verdict
        == "no evidence"
    )
    assert comparison.reason.startswith("quality: accuracy is 1.1 % worse")
    assert comparison.quality.ok is False and comparison.four is None
    assert held(base, [replace(t, quality=0.897) for t in BETTER], question).verdict == "gain"
    # From an error of nothing there is no percentage.
    perfect = held(
        [replace(t, quality=0.0) for t in BASE],
        [replace(t, quality=0.1) for t in BETTER],
        Question(metric="e", higher=False),
    )
    assert perfect.reason == "quality: e is worse" and perfect.verdict == "no evidence"
    wide = replace(question, tolerance=0.02)
    assert held(base, [replace(t, quality=0.89) for t in BETTER], wide).verdict == "gain"


def test_who_stopped_at_the_target_is_as_good_as_that() -> None:
    question = Question(Target("accuracy", True, 0.8), metric="accuracy", higher=True)
    # The base overshot, or went on to the end: no more than the target is asked of the other.
    base = [replace(t, reached=True, quality=0.9) for t in BASE]
    other = [replace(t, reached=True, stopped=True, quality=0.81) for t in BETTER]
    assert held(base, other, question).verdict == "gain"
    went_on = [replace(t, stopped=False) for t in other]
    assert held(base, went_on, question).reason.startswith("quality: accuracy is 10 % worse")


def test_a_missed_target_is_a_bound_and_never_a_gain() -> None:
    reached = [replace(t, reached=True) for t in BASE]
    missed = [replace(t, reached=i > 0) for i, t in enumerate(BETTER)]
    comparison = held(reached, missed, LOSS)
    energy = comparison.energy_j
    assert (energy.gain, energy.verdict, comparison.cells) == (None, "no evidence", [])
    assert energy.bound.is_ == "at most" and energy.interval[0] is None
    assert comparison.reason.startswith("target missed by 1 of 3 runs of other")
    # Whoever used more than the base and still is not there has lost.
    lost = held(reached, [replace(t, reached=False) for t in WORSE], LOSS)
    assert lost.energy_j.verdict == lost.verdict == "loss"
    assert lost.four is None and lost.cells == []
    # The base's own miss is a bound from below, which is no gain either.
    late = held(
        [replace(t, reached=False) for t in BASE], [replace(t, reached=True) for t in BETTER], LOSS
    )
    assert late.energy_j.verdict == "no evidence"
    assert late.energy_j.bound.is_ == "at least"


def test_other_cards_must_differ_by_more_than_cards_do() -> None:
    nearly = [run(i, 0.95 * j, meters=frozenset({"v"})) for i, j in enumerate((1000, 1010, 990))]
    assert held(BASE, [replace(t, meters=frozenset({"u"})) for t in nearly]).verdict == "gain"
    comparison = held(BASE, nearly)
    assert comparison.verdict == "no evidence"
    assert all(cell.verdict == "no evidence" for cell in comparison.cells)
    low, high = comparison.energy_j.interval
    assert (high - low) / 2 >= 0.05 * np.hypot(1000, 950)
    far = [run(i, 0.5 * j, meters=frozenset({"v"})) for i, j in enumerate((1000, 1010, 990))]
    assert held(BASE, far).verdict == "gain"


def test_modelled_energy_has_no_verdict() -> None:
    base, other = (
        [replace(t, energy=Provenance.MODELLED) for t in side] for side in (BASE, BETTER)
    )
    comparison = held(base, other)
    assert comparison.energy_j.gain == pytest.approx(1000 - 2402 / 3)
    assert comparison.energy_j.verdict == "no evidence" and comparison.energy_j.interval is None
    assert comparison.energy_j.provenance == "modelled" and comparison.verdict_by == "time"
    assert all(
        cell.verdict == "no evidence" and cell.energy_j_interval is None
        for cell in comparison.cells
    )


def test_no_meter_is_null_not_zero() -> None:
    base, other = ([replace(t, energy=None) for t in side] for side in (BASE, BETTER))
    comparison = held(base, other)
    assert comparison.energy_j.gain is None and comparison.verdict_by == "time"
    assert all(cell.energy_j is None for cell in comparison.cells)
    assert {cell.class_ for cell in comparison.cells} == {"compute", "gradient-heavy"}


def test_refused_phases_are_one_row_with_bounds() -> None:
    refused = [
        replace(
            t,
            stages={
                EARLY: Stage(
                    1000,
                    {"forward": Use(10, None), "optimizer": Use(3, 70.0)},
                    Joint(270.0, 250.0, 300.0),
                ),
                LATE: t.stages[LATE],
            },
        )
        for t in BETTER
    ]
    comparison = held(BASE, refused)
    rows = [cell for cell in comparison.cells if cell.class_ == "unidentified"]
    assert [row.stage for row in rows] == ["early"]
    low, high = rows[0].bounds_j
    assert low == pytest.approx(rows[0].energy_j - 30.0)
    assert high == pytest.approx(rows[0].energy_j + 20.0)
    assert rows[0].verdict == "no evidence" and rows[0].status == "not_identifiable"
    joules = [cell.energy_j for cell in comparison.cells if cell.energy_j is not None]
    assert sum(joules) == pytest.approx(comparison.energy_j.gain, rel=1e-9)


def test_a_class_of_which_nothing_is_known_has_no_share() -> None:
    def lacks(trial: Trial) -> Trial:
        return replace(
            trial,
            stages={
                name: Stage(
                    stage.samples, {**stage.phases, "data": Use(1.0, None)}, Joint(5.0, 0.0, 9.0)
                )
                for name, stage in trial.stages.items()
            },
        )

    comparison = held([lacks(t) for t in BASE], [lacks(t) for t in BETTER])
    waiting = [cell for cell in comparison.cells if cell.class_ == "waiting"]
    assert comparison.verdict == "gain" and len(waiting) == 2
    assert all(
        cell.energy_j is None and cell.share is None and cell.refused == ["data"]
        for cell in waiting
    )
    assert sum(cell.share for cell in comparison.cells if cell.share is not None) == pytest.approx(
        1.0
    )


def test_a_run_that_cannot_tell_a_phase_is_left_out_of_the_phases_and_named() -> None:
    def refuses(trial: Trial) -> Trial:
        stages = {
            name: Stage(
                stage.samples,
                {**stage.phases, "forward": Use(stage.phases["forward"].time_s)},
                Joint(stage.phases["forward"].energy_j or 0.0, 0.0, 1000.0),
            )
            for name, stage in trial.stages.items()
        }
        return replace(trial, stages=stages)

    comparison = held(BASE, [refuses(BETTER[0]), *BETTER[1:]])
    assert comparison.phases_without == [BETTER[0].id]
    rows = {row.phase: row for row in comparison.phases}
    assert rows["forward"].verdict == "gain" and "unresolved" not in rows
    assert rows["forward"].base.energy_j == pytest.approx(0.8 * 1000 / 3000)
    assert comparison.energy_j.gain == pytest.approx(1000 - 2402 / 3)  # the total is of all runs
    times = {row.phase: (row.gain_s, row.time_verdict) for row in held(BASE, BETTER).phases}
    assert {name: (row.gain_s, row.time_verdict) for name, row in rows.items()} == times
    # Too few are left: the phase is refused in all of them.
    two = held(BASE, [refuses(BETTER[0]), refuses(BETTER[1]), BETTER[2]])
    assert two.phases_without == ()
    rows = {row.phase: row for row in two.phases}
    assert rows["forward"].gain_j is None and rows["forward"].verdict == "no evidence"
    assert rows["unresolved"].gain_j is not None


def test_what_is_not_comparable_has_no_verdict() -> None:
    comparison = held(BASE, BETTER, WORK, ["other hardware: A against B"])
    assert comparison.verdict == comparison.energy_j.verdict == comparison.memory_bytes.verdict
    assert comparison.verdict == "no evidence" and not comparison.comparable
    assert comparison.reason == "not comparable: other hardware: A against B"
    assert all(cell.verdict == cell.time_verdict == "no evidence" for cell in comparison.cells)


def test_blocks_that_do_not_match_are_groups() -> None:
    assert held(BASE, BETTER).paired
    apart = [replace(t, block=str(i + 7)) for i, t in enumerate(BETTER)]
    assert not held(BASE, apart).paired
    # One block more on a side: the shared ones are pairs.
    assert held([*BASE, run(9, 1005.0)], BETTER).runs == 3


def test_equal_work_is_per_sample() -> None:
    """Twice the samples at half the price each: a gain of half, but for what a run has once."""

    def twice(trial: Trial) -> Trial:
        return replace(
            trial,
            id=trial.id + "t",
            stages={
                name: Stage(2 * stage.samples, stage.phases) for name, stage in trial.stages.items()
            },
        )

    comparison = held(BASE, [twice(t) for t in BASE])
    assert comparison.energy_j.gain == pytest.approx(500.0)
    assert comparison.energy_j.progress == pytest.approx(0.0)


def test_memory_by_component() -> None:
    base = [replace(t, memory={"peak": 100.0, "weights": 40.0, "activations": 60.0}) for t in BASE]
    other = [
        replace(t, memory={"peak": 70.0, "weights": 40.0, "activations": 30.0}) for t in BETTER
    ]
    memory = held(base, other).memory_bytes
    assert (memory.gain, memory.percent, memory.verdict) == (30.0, 30.0, "gain")
    assert {row.component: (row.base, row.other) for row in memory.components} == {
        "weights": (40.0, 40.0),
        "activations": (60.0, 30.0),
    }


def test_runs_of_before_start_up_was_a_phase_are_named() -> None:
    rng = np.random.default_rng(1)
    old, _ = campaign(NULL, 3, rng)
    startup = {str(Phase.STARTUP): Use(1.0, 20.0)}
    new = [
        replace(
            trial,
            id=f"new-{trial.id}",
            stages={
                name: replace(stage, phases={**stage.phases, **(startup if name == EARLY else {})})
                for name, stage in trial.stages.items()
            },
        )
        for trial in old
    ]
    for others, said in ((new, True), (old, False)):
        sides = [Side("old", old), Side("other", others)]
        lines = Campaign(sides, None, None, {}, []).compared(0.01).warnings
        assert any("before start-up and inference were phases" in line for line in lines) == said
