"""From the runs of a folder to its cards."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probe.compare import TOLERANCE, compatibility
from probe.compare.gain import Verdict
from probe.compare.groups import Campaign
from probe.compare.model import Comparison, ComparisonReport
from probe.compare.run_record import Trial
from probe.compare.sides import Question
from probe.errors import NothingToReport, UsageError
from probe.redact import redact_command
from probe.store.reader import RunReader

from .about import about
from .design import BASE
from .model import Card, CardSet, Measured, Word
from .quantities import Pairs, adjusted, measured
from .trials import CardTrials
from .verdicts import reason, word


@dataclass(frozen=True, slots=True)
class Judged:
    """A technique's verdict, and what it rests on."""

    word: Word
    reason: str
    measured: Sequence[Measured]
    report: ComparisonReport

    @property
    def comparison(self) -> Comparison:
        """By ``probe compare``."""
        return self.report.comparisons[0]


@dataclass(frozen=True, slots=True)
class Pages:
    """The cards, and what their pages show beside them: reports by technique."""

    cards: CardSet
    to_target: Mapping[str, ComparisonReport]
    equal_work: Mapping[str, ComparisonReport]


def judge(pairs: Mapping[str, Pairs]) -> tuple[dict[str, Judged], int]:
    """(technique → its verdict, number of questions that the verdicts are adjusted for)."""
    rows, tests = adjusted([measured(each) for each in pairs.values()])
    judged = {}
    for (technique, each), of_card in zip(pairs.items(), rows, strict=True):
        report = each.compared()
        verdict = word(of_card, report.comparisons[0])
        why = reason(verdict, of_card, report.comparisons[0])
        judged[technique] = Judged(verdict, why, of_card, report)
    return judged, tests


def analyse(trials: CardTrials, tolerance: float = TOLERANCE) -> Pages:
    """The cards of a folder.

    Raises:
        NothingToReport: no training of the base has ended.
        UsageError: the runs cannot be compared.
    """
    done = {(each.block, each.arm): trials.folder / each.run for each in trials.done()}
    blocks = [block for block in range(trials.design.blocks) if (block, BASE) in done]
    if not blocks:
        raise NothingToReport(f"no training of the base in {trials.folder} has ended")
    meta = RunReader(done[blocks[0], BASE]).meta
    names = [name for name in trials.design.techniques if any((b, name) in done for b in blocks)]
    question = Question()
    equal_work: Mapping[str, ComparisonReport] = {}
    judged: dict[str, Judged] = {}
    tests = 0
    remarks: Sequence[str] = ()
    campaign = None
    if names:
        runs = {
            arm: {b: done[b, arm] for b in blocks if (b, arm) in done} for arm in (BASE, *names)
        }
        campaign = _campaign(runs)
        question, remarks = campaign.question(tolerance), campaign.warnings()
        judged, tests = judge(_pairs(campaign, runs, question))
        if campaign.target is not None:
            # To the target quality is judged; a sample costs what it costs.
            works = _campaign(runs, equal_work=True)
            pairs = _pairs(works, runs, Question(tolerance=tolerance))
            equal_work = {name: each.compared() for name, each in pairs.items()}
    by_mode = {name: each.report for name, each in judged.items()}
    to_target = {} if question.target is None else by_mode
    equal_work = by_mode if question.target is None else equal_work
    cards = CardSet(
        folder=str(trials.folder),
        command=redact_command(trials.command),
        base=trials.design.base,
        seeds=trials.design.blocks,
        target=None if question.target is None else str(question.target),
        metric=question.metric,
        hardware=_hardware(meta, campaign),
        torch=str((meta.get("packages") or {}).get("torch") or "unknown"),
        python=str(meta.get("python") or "unknown"),
        tests=tests,
        tolerance_percent=100 * tolerance,
        cards=_cards(trials, judged, to_target, equal_work, meta),
        remarks=remarks,
    )
    return Pages(cards, to_target, equal_work)


_Runs = Mapping[str, Mapping[int, Path]]


def _campaign(runs: _Runs, *, equal_work: bool = False) -> Campaign:
    return Campaign.over(
        [(arm, [*by_block.values()]) for arm, by_block in runs.items()], equal_work=equal_work
    )


def _pairs(campaign: Campaign, runs: _Runs, question: Question) -> dict[str, Pairs]:
    """Pairs of each technique, of the blocks in which both were trained. Raises UsageError."""
    targeted = question.target is not None
    trials: dict[str, dict[int, Trial]] = {
        arm: dict(zip(by_block, side.trials, strict=True))
        for (arm, by_block), side in zip(runs.items(), campaign.sides, strict=True)
    }
    base = trials.pop(BASE)
    if mixed := compatibility.inner([*base.values()], targeted=targeted):
        raise UsageError(f"the runs of the base are of several kinds: {mixed[0]}")
    return {
        arm: Pairs(
            [base[block] for block in theirs],
            [*theirs.values()],
            question,
            compatibility.differences([*base.values()], [*theirs.values()], targeted=targeted),
        )
        for arm, theirs in trials.items()
    }


def _cards(
    trials: CardTrials,
    judged: Mapping[str, Judged],
    to_target: Mapping[str, ComparisonReport],
    equal_work: Mapping[str, ComparisonReport],
    meta: Mapping[str, Any],
) -> list[Card]:
    failed = trials.failed()
    files = file_names(trials.design.techniques)
    cards = []
    for name in trials.design.techniques:
        result, failure = judged.get(name), failed.get(name)
        stack = trials.design.stack_of(name)
        own = about(name, stack, meta)
        verdict = Word.NOT_MEASURED if result is None else result.word
        why = "no run of it has finished" if result is None else result.reason
        rows = () if result is None else result.measured
        if failure is not None:
            why = f"seed {failure.block} ended badly: {failure.why}"
            if result is not None:  # those that ended well are not a fair choice of seeds
                verdict, rows = Word.NO_EVIDENCE, _silenced(rows)
        cards.append(
            Card(
                technique=name,
                stack=stack,
                what=own.what,
                source=own.source,
                settings=own.settings,
                predicts=own.predicts,
                verdict=verdict,
                reason=why,
                seeds=0 if result is None else result.comparison.runs,
                failed="" if failure is None else f"seed {failure.block}: {failure.why}",
                measured=rows,
                to_target=_first(to_target.get(name)),
                equal_work=_first(equal_work.get(name)),
                page=f"cards/{files[name]}",
            )
        )
    return cards


def _silenced(rows: Sequence[Measured]) -> Sequence[Measured]:
    """Without verdicts."""
    no = Verdict.NO_EVIDENCE
    return [replace(row, verdict=no, adjusted_verdict=no) for row in rows]


def _first(report: ComparisonReport | None) -> Comparison | None:
    return None if report is None else report.comparisons[0]


def _hardware(meta: Mapping[str, Any], campaign: Campaign | None) -> str:
    """The devices that were measured, the processor and its cores."""
    machine = meta.get("machine") or {}
    trial = None if campaign is None else campaign.sides[0].trials[0]
    named = None if trial is None else trial.is_like.get("hardware")
    cores = machine.get("cpu_count")
    text = str(named or machine.get("cpu_model") or "unknown")
    return f"{text}, {cores} cores" if cores else text


def file_names(techniques: Sequence[str]) -> dict[str, str]:
    """Technique → the file of its card: no sign that a link or a shell would take for its own."""
    names: dict[str, str] = {}
    for technique in techniques:
        stem = re.sub("[^A-Za-z0-9=.,_-]", "_", technique.replace(":", ","))
        while f"{stem}.md" in names.values():
            stem += "_"
        names[technique] = f"{stem}.md"
    return names
