"""The result of an ablation: a row for every technique, in every cell, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from probe.compare import TOLERANCE
from probe.compare.cells import Layout, Row, energy_row, time_row
from probe.compare.comparison import compare
from probe.compare.gain import Gain, Verdict
from probe.compare.groups import Campaign
from probe.compare.model import Comparison
from probe.compare.phase_classes import PhaseClasses
from probe.compare.run_record import Trial
from probe.compare.sides import Question, Side
from probe.compare.statistics import FEWEST_RUNS, Contrast, holm, paired
from probe.errors import NothingToReport
from probe.model import Provenance
from probe.redact import redact_command

from .design import NO_OP, Design
from .model import (
    AblationResult,
    AddedStep,
    CellGain,
    CellName,
    GameValues,
    Interaction,
    LeftOut,
    ShapleyRefused,
    ShapleyValues,
    TechniqueGain,
)
from .runner import Ablation
from .shapley import Floats, Set, interactions, values

_ALPHA = 0.05
_BASE = "baseline"


def analyse(ablation: Ablation, tolerance: float = TOLERANCE) -> AblationResult:
    """The result of ``probe ablate``, from the blocks that are complete.

    Raises:
        NothingToReport: no block is complete.
        UsageError: the runs cannot be compared.
    """
    design = ablation.design
    missing = {block for block, _ in ablation.missing()}
    complete = [block for block in range(design.blocks) if block not in missing]
    if not complete:
        raise NothingToReport(f"no block of the ablation in {ablation.folder} is complete yet")
    runs = {(done.block, done.arm): ablation.folder / done.run for done in ablation.done()}
    names = list(dict.fromkeys(arm.name for block in complete for arm in design.arms(block)))
    places = {name: [block for block in complete if (block, name) in runs] for name in names}
    campaign = Campaign.over(
        [(name, [runs[block, name] for block in places[name]]) for name in names]
    )
    sides = {
        name: [
            replace(trial, block=str(block))
            for trial, block in zip(side.trials, places[name], strict=True)
        ]
        for name, side in zip(names, campaign.sides, strict=True)
    }
    return replace(
        evaluate(design, complete, sides, campaign.question(tolerance)),
        folder=str(ablation.folder),
        command=redact_command(ablation.command),
        trials=len(ablation.done()),
        missing=len(ablation.missing()),
    )


def evaluate(
    design: Design, blocks: Sequence[int], trials: Mapping[str, Sequence[Trial]], question: Question
) -> AblationResult:
    """The effects of the techniques, from trials by arm; each trial knows its ``block``."""
    bases = trials[_BASE]
    classes = PhaseClasses.of_base(bases)

    def against(base: str, other: str) -> Comparison:
        sides = Side(base, trials[base]), [Side(other, trials[other])]
        return compare(*sides, question, classes=classes).comparisons[0]

    nothing = against(_BASE, NO_OP)
    totals: tuple[Gain, ...] = (nothing.time_s, nothing.energy_j)
    has_verdicts = len(blocks) >= FEWEST_RUNS and any(total.gain is not None for total in totals)
    result = AblationResult(
        design=design.kind,
        techniques=list(design.techniques),
        blocks=len(blocks),
        mode=question.mode,
        no_op=nothing,
        sound=all(map(_holds_zero, totals)) if has_verdicts else None,
    )
    if design.kind == "cumulative":
        arms = [_BASE, *(arm.name for arm in design.arms(0)[2:])]
        steps = [
            AddedStep(technique, against(before, after), against(_BASE, after))
            for technique, (before, after) in zip(design.techniques, pairwise(arms), strict=True)
        ]
        return replace(result, steps=steps)
    if design.kind == "leave-one-out":
        by_set = {arm.techniques: arm.name for arm in design.arms(0)[2:]} | {frozenset(): _BASE}
        full = frozenset(design.techniques)
        left_out = [
            LeftOut(name, against(by_set[full - {name}], by_set[full]))
            for name in design.techniques
            if full - {name} in by_set
        ]
        return replace(result, all_=against(_BASE, by_set[full]), left_out=left_out)
    shapley = _shapley(design, blocks, trials, classes, question, against)
    return replace(result, shapley=shapley)


def _holds_zero(total: Gain) -> bool:
    """Whether doing nothing made no difference that the runs can show."""
    if total.gain is None:
        return True
    low, high = total.interval or (total.gain, total.gain)
    return (low or 0.0) <= 0 <= (high or 0.0)


def _shapley(
    design: Design,
    blocks: Sequence[int],
    trials: Mapping[str, Sequence[Trial]],
    classes: PhaseClasses,
    question: Question,
    against: Callable[[str, str], Comparison],
) -> ShapleyValues | ShapleyRefused:
    every = [trial for side in trials.values() for trial in side]
    missed = sum(trial.reached is False for trial in every)
    if missed:  # what they cost so far is a bound, and sums of bounds attribute nothing
        return ShapleyRefused(f"the target was missed by {missed} trials")
    worse = [
        name
        for name in trials
        if name not in (_BASE, NO_OP) and against(_BASE, name).quality.ok is False
    ]
    layout = Layout.of(every, classes)
    measured = {trial.energy for trial in every} == {Provenance.MEASURED}

    def values_of(row_of: Callable[[Trial, Layout], Row]) -> GameValues:
        per_block = [
            _block(design, block, trials, layout, row_of, scaled=question.target is None)
            for block in blocks
        ]
        return _game_values(design, per_block, gains=not worse)

    return ShapleyValues(
        exact=design.exact,
        cells=[CellName(stage, kind) for stage, kind in layout.cells],
        worse_in_quality=worse,
        orders=len(design.joining(blocks[0])),
        valid_orders_only=design.exact
        and len(design.joining(0)) < math.factorial(len(design.techniques)),
        time_s=values_of(time_row),
        energy_j=_silenced(values_of(energy_row), layout, every) if measured else None,
    )


def _silenced(values: GameValues, layout: Layout, trials: Sequence[Trial]) -> GameValues:
    """Without the cells whose joules could not be identified; `unidentified` has those."""
    blank = CellGain(None, None, Verdict.NO_EVIDENCE)
    places = set()
    for place, cell in enumerate(layout.cells):
        stated, refused, _ = layout.phases_in(cell, trials)
        if refused and not stated:
            places.add(place)
    rows = [
        replace(row, cells=[blank if i in places else cell for i, cell in enumerate(row.cells)])
        for row in values.techniques
    ]
    return replace(values, techniques=rows)


def _block(
    design: Design,
    block: int,
    trials: Mapping[str, Sequence[Trial]],
    layout: Layout,
    row_of: Callable[[Trial, Layout], Row],
    *,
    scaled: bool,
) -> tuple[dict[str, Floats], dict[tuple[str, str], Floats]]:
    """(technique → cells and total, pair → the same) of one block: what each saved."""
    of_block = {
        name: next((t for t in side if t.block == str(block)), None)
        for name, side in trials.items()
    }
    base = of_block[_BASE]
    assert base is not None

    def cells(trial: Trial) -> Floats:
        row = row_of(trial, layout)
        if scaled and trial.samples > 0 and base.samples > 0:  # the same work for all
            row = row.scaled(base.samples / trial.samples)
        return np.append(row.all, row.all.sum())

    base_cells = cells(base)
    worth: dict[Set, Floats] = {frozenset(): np.zeros(len(base_cells))}
    for arm in design.arms(block)[2:]:
        trial = of_block[arm.name]
        assert trial is not None
        worth[arm.techniques] = base_cells - cells(trial)
    pairs = interactions(worth, design.techniques) if design.exact else {}
    return values(worth, design.joining(block)), pairs


def _game_values(
    design: Design,
    per_block: Sequence[tuple[dict[str, Floats], dict[tuple[str, str], Floats]]],
    *,
    gains: bool,
) -> GameValues:
    each = np.array([[values[name] for name in design.techniques] for values, _ in per_block])
    techniques = [
        TechniqueGain(name, total.gain or 0.0, total.interval, total.verdict, cells)
        for name, (total, cells) in zip(design.techniques, _rows(each, gains=gains), strict=True)
    ]
    pairs = list(per_block[0][1])
    if not pairs:
        return GameValues(techniques, [])
    of_pairs = np.array([[values[pair][-1:] for pair in pairs] for _, values in per_block])
    interactions_ = [
        Interaction(pair, total.gain or 0.0, total.interval, total.verdict)
        for pair, (total, _) in zip(pairs, _rows(of_pairs, gains=gains), strict=True)
    ]
    return GameValues(techniques, interactions_)


def _rows(each: Floats, *, gains: bool) -> list[tuple[CellGain, list[CellGain]]]:
    """(total, cells) of each player, with interval and verdict.

    Verdicts are adjusted over the players for totals, over players and cells for cells.

    Args:
        each: (blocks, players, cells + total).
        gains: False where a stack was worse in quality: no verdict is then a gain.
    """
    blocks, players, width = each.shape
    contrast: Contrast = paired(each.reshape(blocks, -1))
    half, p = contrast.half().reshape(players, width), contrast.p_values().reshape(players, width)
    value = contrast.value.reshape(players, width)
    totals = holm(p[:, -1])
    cells = holm(p[:, :-1].ravel()).reshape(players, width - 1)

    def entry(gain: float, half_width: float, adjusted: float) -> CellGain:
        clear = contrast.has_error and adjusted < _ALPHA and (gain < 0 or (gain > 0 and gains))
        has_interval = contrast.has_error and half_width > 0
        return CellGain(
            gain,
            (gain - half_width, gain + half_width) if has_interval else None,
            (Verdict.GAIN if gain > 0 else Verdict.LOSS) if clear else Verdict.NO_EVIDENCE,
        )

    return [
        (
            entry(float(value[i, -1]), float(half[i, -1]), float(totals[i])),
            [
                entry(float(value[i, j]), float(half[i, j]), float(cells[i, j]))
                for j in range(width - 1)
            ],
        )
        for i in range(players)
    ]
