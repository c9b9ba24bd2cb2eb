"""Rows of the table stage × class: what was saved in each cell, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ..model import Provenance
from . import phase_classes as kinds
from .cells import Layout
from .gain import Gain, Interval, Verdict, closed
from .model import Cell
from .quantity import ComparedQuantity
from .run_record import Trial


@dataclass(frozen=True, slots=True)
class CellRows:
    """What the rows are made of; ``energy``: how joules came about, None if not known of all.

    ``shared_out`` is the quantity whose gain is divided among the cells, None if there is no gain.
    """

    layout: Layout
    bases: Sequence[Trial]
    others: Sequence[Trial]
    energy: Provenance | None
    shared_out: ComparedQuantity | None

    def rows(self, time: ComparedQuantity, joules: ComparedQuantity | None) -> list[Cell]:
        """One for each cell of the layout."""
        seconds = time.cells()
        energies = [None] * len(seconds) if joules is None else joules.cells()
        return [
            self._row(at, second, energy, is_by_time=self.shared_out is time)
            for at, (second, energy) in enumerate(zip(seconds, energies, strict=True))
        ]

    def _row(self, at: int, seconds: Gain, joules: Gain | None, *, is_by_time: bool) -> Cell:
        stage, kind = self.layout.cells[at]
        stated, refused, status = self.layout.phases_in((stage, kind), [*self.bases, *self.others])
        row = Cell(
            stage=stage,
            class_=kind,
            classified=self.layout.classes.how([*stated, *refused]),
            time_s=seconds.gain or 0.0,
            time_s_interval=closed(seconds.interval),
            time_verdict=seconds.verdict,
            phases=stated,
            refused=refused,
            status=status,
        )
        # A class of which nothing is stated: its joules are in `unidentified`.
        has_joules = kind == kinds.UNIDENTIFIED or bool(stated)
        if joules is not None and has_joules:
            row = self._with_joules(row, joules)
        if self.shared_out is not None and (has_joules or is_by_time):
            share, interval = self.shared_out.share(at)
            row = replace(row, share=share, share_interval=interval)
        return row

    def _with_joules(self, row: Cell, joules: Gain) -> Cell:
        row = replace(
            row,
            energy_j=joules.gain,
            progress_j=joules.progress,
            cost_j=joules.cost,
            provenance=Provenance.ESTIMATED,
        )
        if row.class_ == kinds.UNIDENTIFIED:
            row = replace(row, bounds_j=self._bounds(row.stage, joules.gain or 0.0))
        if self.energy is Provenance.MODELLED:  # a model's joules have no interval and no verdict
            return replace(row, provenance=Provenance.MODELLED)
        row = replace(
            row,
            energy_j_interval=closed(joules.interval),
            progress_j_interval=joules.progress_interval,
            cost_j_interval=joules.cost_interval,
        )
        if row.class_ == kinds.UNIDENTIFIED:
            return row
        return replace(
            row,
            verdict=joules.verdict,
            progress_verdict=joules.progress_verdict,
            cost_verdict=joules.cost_verdict,
        )

    def _bounds(self, stage: str, gained_j: float) -> Interval:
        """How much the refused phases can have saved at least and at most."""
        (base_low, base_high), (other_low, other_high) = (
            _distances(trials, stage) for trials in (self.bases, self.others)
        )
        return gained_j - base_low - other_high, gained_j + base_high + other_low


def _distances(trials: Sequence[Trial], stage: str) -> tuple[float, float]:
    """From the refused joules to their lower and to their upper bound, means of the runs."""
    joints = [trial.stages[stage].unidentified for trial in trials if stage in trial.stages]
    return (
        fmean([joint.energy_j - joint.low_j for joint in joints] or [0.0]),
        fmean([joint.high_j - joint.energy_j for joint in joints] or [0.0]),
    )


def without_verdicts(gain: Gain) -> Gain:
    """A model's joules: no interval and no verdict."""
    return replace(
        gain,
        interval=None,
        progress_interval=None,
        cost_interval=None,
        verdict=Verdict.NO_EVIDENCE,
        progress_verdict=Verdict.NO_EVIDENCE,
        cost_verdict=Verdict.NO_EVIDENCE,
    )
