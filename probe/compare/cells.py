"""Stage × class: what each run used in every cell, and how a pair of runs differs there.

E = S·c: samples trained in the stage times cost per sample. Between two runs

    E_b − E_o = (S_b − S_o)(c_b + c_o)/2  +  (c_b − c_o)(S_b + S_o)/2
                progress: fewer samples      cost: a cheaper sample

exactly. What a run has once (its start, its end) is no cost per sample: it counts as cost. Cells
add up to the total, and so do progress and cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..attribution.arrays import Floats
from ..model import Status
from . import phase_classes as kinds
from .run_record import ONCE, STAGES, Stage, Trial

Place = tuple[str, str]  # stage, class

GAIN, PROGRESS, COST = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Layout:
    """Which cells a comparison has, and which phases are refused in each stage.

    A phase whose energy is refused in one run is refused in all of them, or cells would not compare
    like with like. Its time is known all the same and stays in its class.
    """

    cells: tuple[Place, ...]
    refused: Mapping[str, frozenset[str]]
    classes: kinds.PhaseClasses

    @classmethod
    def of(cls, trials: Sequence[Trial], classes: kinds.PhaseClasses) -> Layout:
        """Cells in which any of the runs spent anything."""
        refused = {
            stage: frozenset(
                phase
                for trial in trials
                if trial.energy is not None
                for phase, use in _stage(trial, stage).phases.items()
                if use.energy_j is None and use.time_s > 0
            )
            for stage in STAGES
        }
        used = set()
        for trial in trials:
            for stage in STAGES:
                part = _stage(trial, stage)
                used |= {
                    (stage, kind)
                    for phase, use in part.phases.items()
                    if use.time_s > 0 or use.energy_j
                    for kind, share in classes.of(phase).items()
                    if share > 0
                }
                if trial.energy is not None and (refused[stage] or part.unidentified.energy_j):
                    used.add((stage, kinds.UNIDENTIFIED))
        return cls(
            tuple(
                cell
                for stage in STAGES
                for kind in kinds.CLASSES
                if (cell := (stage, kind)) in used
            ),
            refused,
            classes,
        )

    def phases_in(
        self, cell: Place, trials: Sequence[Trial]
    ) -> tuple[list[str], list[str], Status]:
        """(phases stated, phases refused, the worst status of those stated) of a cell."""
        stage, kind = cell
        inside = {
            phase
            for trial in trials
            for phase, use in _stage(trial, stage).phases.items()
            if use.time_s > 0 and self.classes.of(phase).get(kind, 0.0) > 0
        }
        refused = sorted(inside & self.refused[stage])
        stated = sorted(inside - self.refused[stage])
        with_energy = {
            _stage(trial, stage).phases[phase].status
            for trial in trials
            for phase in stated
            if phase in _stage(trial, stage).phases
        }
        if kind == kinds.UNIDENTIFIED or (not stated and refused):
            return stated, refused, Status.NOT_IDENTIFIABLE
        return stated, refused, Status.WEAK if Status.WEAK in with_energy else Status.RESOLVED


@dataclass(frozen=True, slots=True)
class Row:
    """One run's cells. Arrays are (cells,); ``once`` is what does not grow with samples."""

    samples: Floats
    grows: Floats
    once: Floats

    @property
    def all(self) -> Floats:
        """What the cells hold, with what comes once."""
        return np.asarray(self.grows + self.once)

    def scaled(self, factor: float) -> Row:
        """As if it had trained on ``factor`` times as many samples."""
        return Row(self.samples * factor, self.grows * factor, self.once)


def time_row(trial: Trial, layout: Layout) -> Row:
    """Seconds of a trial, cell by cell."""
    return _row(trial, layout, energy=False)


def energy_row(trial: Trial, layout: Layout) -> Row:
    """Joules of a trial, cell by cell."""
    return _row(trial, layout, energy=True)


def differences(base: Row, other: Row) -> Floats:
    """(3, cells + 1): gain, progress, cost of every cell; the last column is the total."""
    per_base, per_other = _per_sample(base), _per_sample(other)
    per_base = np.where(np.isnan(per_base), per_other, per_base)  # a stage that one never had
    per_other = np.where(np.isnan(per_other), per_base, per_other)
    gain = base.all - other.all
    progress = (base.samples - other.samples) * np.nan_to_num(per_base + per_other) / 2
    cells = np.stack([gain, progress, gain - progress])
    return np.concatenate([cells, cells.sum(1, keepdims=True)], axis=1)


def _per_sample(row: Row) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(row.samples > 0, row.grows / row.samples, np.nan)


def _row(trial: Trial, layout: Layout, *, energy: bool) -> Row:
    place = {cell: at for at, cell in enumerate(layout.cells)}
    grows, once = np.zeros(len(place)), np.zeros(len(place))
    samples = np.array([_stage(trial, stage).samples for stage, _ in layout.cells])
    for stage in STAGES:
        part = _stage(trial, stage)
        if energy and (stage, kinds.UNIDENTIFIED) in place:
            grows[place[stage, kinds.UNIDENTIFIED]] += part.unidentified.energy_j
        for phase, use in part.phases.items():
            amount = use.energy_j if energy else use.time_s
            if not amount:
                continue
            into = once if phase in ONCE else grows
            if energy and phase in layout.refused[stage]:
                into[place[stage, kinds.UNIDENTIFIED]] += amount
                continue
            for kind, share in layout.classes.of(phase).items():
                if share > 0:
                    into[place[stage, kind]] += share * amount
    return Row(samples, grows, once)


def _stage(trial: Trial, stage: str) -> Stage:
    return trial.stages.get(stage) or Stage(0.0, {})
