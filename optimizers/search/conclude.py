"""From the trainings of a search to its result: the verdict, what it cost, when it is paid back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from probe.compare.gain import Interval, Verdict
from probe.redact import redact_command
from probe.target import Target

from .budget import Budget
from .command_line import CommandLine
from .driver import Trainings
from .measured import configurations, default_of
from .objective import Objective
from .outcome import NOTHING, Cost, Outcome, Part, Settings, State, Training, key_of, written
from .plan import FEWEST_PAIRS, BeginProof, champion
from .proof import Proof, prove
from .result import Row, SearchResult, Spent


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search was asked."""

    objective: Objective
    target: Target
    budget: Budget
    command: CommandLine
    folder: Path


def conclude(
    asked: Asked, done: Sequence[Training], chosen: BeginProof | None, trainings: Trainings
) -> SearchResult:
    """The result of the trainings that are done so far."""
    proof = _proof(asked, done, chosen, trainings)
    spent = {part: _spent([t for t in done if t.part is part]) for part in Part}
    search = _added(spent[Part.SEARCH], spent[Part.AGAIN])
    own: Settings = {knob.name: None for knob in asked.command.knobs}
    best = None if chosen is None else chosen.settings
    settings = own if best is None else best
    pays = _pays_back(asked.objective, search, spent[Part.PROOF], proof)
    finite = {
        name: value if math.isfinite(value) else None
        for name, value in (("s", asked.budget.seconds), ("j", asked.budget.joules))
    }
    return SearchResult(
        objective=asked.objective.kind,
        target=str(asked.target),
        budget_s=finite["s"],
        budget_j=finite["j"],
        verdict=proof.word,
        reason=proof.reason,
        champion=best,
        words=redact_command(asked.command.shown(settings)),
        environment=asked.command.environment(settings),
        pairs=proof.pairs,
        default_value=proof.default,
        champion_value=proof.champion,
        gain=proof.gain,
        interval=proof.interval,
        percent=proof.percent,
        search=search,
        proof=spent[Part.PROOF],
        pays_back=pays[0],
        pays_back_interval=pays[1],
        by_state=Counter(str(t.outcome.state) for t in done if t.outcome is not None),
        configurations=_rows(done),
        runs=_runs(done, best),
        notes=_notes(asked),
        folder=str(asked.folder),
    )


def _proof(
    asked: Asked, done: Sequence[Training], chosen: BeginProof | None, trainings: Trainings
) -> Proof:
    if chosen is None:
        if any(t.outcome is None for t in done) or not done:
            return Proof(Verdict.NO_EVIDENCE, reason="the search goes on")
        return Proof(Verdict.NO_EVIDENCE, reason=_unproved(done))
    default, other, failed = _pairs(done, chosen.settings)
    if failed:
        return Proof(Verdict.NO_EVIDENCE, reason=failed)
    if len(default) < min(FEWEST_PAIRS, chosen.pairs):
        return Proof(
            Verdict.NO_EVIDENCE,
            pairs=len(default),
            reason=f"the proof has {len(default)} of {chosen.pairs} pairs",
        )
    return prove(trainings.sides(default, other), asked.objective)


def _unproved(done: Sequence[Training]) -> str:
    """Why a search ended without a champion to prove."""
    tried = configurations(done)
    default = default_of(tried)
    if default is None or not default.is_sound:
        return "the script's own setting did not reach the target every time"
    best = champion(tried)
    if best is default:
        return "nothing that was tried was better than the script's own setting"
    return f"the budget was used up before {written(best.settings)} could be proved"


def _pairs(
    done: Sequence[Training], settings: Settings
) -> tuple[list[Training], list[Training], str]:
    """(the default's trainings, the champion's, in pairs; why they prove nothing, or "")."""
    sides: tuple[dict[int, Training], dict[int, Training]] = ({}, {})
    for training in done:
        outcome, block = training.outcome, training.block
        if training.part is not Part.PROOF or block is None or outcome is None:
            continue
        if outcome.state is not State.INTERRUPTED:
            sides[key_of(training.settings) == key_of(settings)][block] = training
    for name, side in zip(("the script's own setting", "the champion"), sides, strict=True):
        outcomes = [t.outcome for t in side.values() if t.outcome is not None]
        failed = [o for o in outcomes if not _is_whole(o)]
        if failed:
            much = f"{len(failed)} of {len(outcomes)} trainings of {name}"
            return [], [], f"{much} in the proof did not end: {failed[0].why or failed[0].state}"
    blocks = sorted(sides[0].keys() & sides[1].keys())
    return [sides[0][block] for block in blocks], [sides[1][block] for block in blocks], ""


def _is_whole(outcome: Outcome) -> bool:
    return outcome.state in (State.REACHED, State.MISSED) and outcome.run is not None


def _spent(trainings: Sequence[Training]) -> Spent:
    total, count = NOTHING, 0
    for training in trainings:
        outcome = training.outcome
        if outcome is not None:
            total = total.plus(outcome.cost)
            count += outcome.began
    return Spent(count, total.seconds, total.joules)


def _added(first: Spent, second: Spent) -> Spent:
    total = Cost(first.seconds, first.joules).plus(Cost(second.seconds, second.joules))
    return Spent(first.trainings + second.trainings, total.seconds, total.joules)


def _pays_back(
    objective: Objective, search: Spent, proof: Spent, proved: Proof
) -> tuple[int | None, tuple[int, int | None] | None]:
    """After how many trainings what one saves is what the search and its proof took.

    Energy × time of several trainings does not add up, so it has no such number.
    """
    if proved.verdict is not Verdict.GAIN or proved.gain is None or objective.kind == "edp":
        return None, None
    total = _added(search, proof)
    took = objective.of(total.seconds, total.joules)
    if took is None:
        return None, None
    return math.ceil(took / proved.gain), _after(took, proved.interval)


def _after(took: float, interval: Interval | None) -> tuple[int, int | None] | None:
    if interval is None:
        return None
    low, high = interval
    return math.ceil(took / high), math.ceil(took / low) if low > 0 else None


def _rows(done: Sequence[Training]) -> list[Row]:
    rows = [
        Row(
            each.settings,
            len(each.values) + each.failures,
            each.failures,
            each.mean if each.values else None,
            each.why,
        )
        for each in configurations(done)
    ]
    return sorted(rows, key=lambda row: (row.failed > 0, row.value is None, row.value or 0.0))


def _runs(done: Sequence[Training], best: Settings | None) -> Mapping[str, Sequence[str]]:
    """The runs of the proof by side, relative to the search's folder."""
    if best is None:
        return {}
    default, other, _ = _pairs(done, best)
    return {
        name: [t.outcome.run for t in side if t.outcome is not None and t.outcome.run is not None]
        for name, side in (("default", default), ("champion", other))
    }


def _notes(asked: Asked) -> list[str]:
    if asked.command.is_seeded:
        return []
    return [
        "the command takes no {seed}: how trainings differ is left to the script, and the proof "
        "knows no other seeds"
    ]
