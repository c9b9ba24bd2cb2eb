"""What the estimator has gathered of one meter: all that :mod:`solve` needs, of constant size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import Bools, Floats, Ints
from .blocks import DIRECT_J, DIRECT_S, LINES, MIXED_J, MIXED_S, Blocks, Innovations
from .columns import Columns


@dataclass(slots=True)
class Candidate:
    """One assumption about lag, clock and drift, with its normal equations."""

    tau_s: float
    offset_s: float
    gain: float
    disturb: float
    blocks: Blocks


@dataclass(slots=True)
class Statistics:
    """All that the solver needs; constant size, additive over time.

    The first candidate's blocks carry the ledger.
    """

    columns: Columns = field(default_factory=Columns)
    candidates: list[Candidate] = field(default_factory=list)
    moments: dict[int, Floats] = field(default_factory=dict)  # (3,) count, Σd, Σd² of instances
    occupancy: dict[int, Ints] = field(default_factory=dict)  # (BINS,) updates by place in cycle
    begin_s: float = 0.0
    end_s: float = 0.0
    skipped: int = 0  # updates that waited too long for spans
    lag_is_unsure: bool = False  # candidates stand for lags that no fit can tell

    @property
    def ledger(self) -> Floats:
        """Plain sums over all blocks, (LINES, width)."""
        if not self.candidates:
            return np.zeros((LINES, self.columns.width))
        return np.asarray(self.candidates[0].blocks.ledger.sum(0))

    @property
    def mixed_s(self) -> Floats:
        """Seconds per column in the intervals that are regressed, (width,)."""
        return np.asarray(self.ledger[MIXED_S])

    @property
    def mixed_j(self) -> float:
        """Energy in J of the intervals that are regressed."""
        return float(self.ledger[MIXED_J, 0])

    @property
    def mixed_rows(self) -> int:
        """Number of the intervals that are regressed."""
        return int(self.candidates[0].blocks.rows.sum()) if self.candidates else 0

    def used_s(self) -> Floats:
        """Seconds per owner in the intervals that are regressed, (k,)."""
        mixed_s = self.mixed_s
        return np.array(
            [mixed_s[self.columns.slice_columns(c)].sum() for c in self.columns.owners], np.float64
        )

    @property
    def seen_s(self) -> float:
        """Seconds of the intervals that are regressed."""
        return float(self.used_s().sum())

    def direct(self) -> tuple[Floats, Floats]:
        """(energy in J, seconds) per owner from intervals that lie inside its phase, (k,) each."""
        first = [self.columns.first[code] for code in self.columns.owners]
        ledger = self.ledger
        return ledger[DIRECT_J, first], ledger[DIRECT_S, first]

    def between(self, begin_s: float, end_s: float) -> Statistics:
        """The statistics of a part of the run; occupancy and moments stay the whole run's."""
        return replace(
            self,
            begin_s=max(self.begin_s, begin_s),
            end_s=min(self.end_s, end_s),
            candidates=[
                replace(c, blocks=c.blocks.between(begin_s, end_s)) for c in self.candidates
            ],
        )

    def scaled(self, gain: float) -> Statistics:
        """The statistics as if the meter had shown ``gain`` times its joules."""
        return replace(
            self, candidates=[replace(c, blocks=c.blocks.scaled(gain)) for c in self.candidates]
        )

    def widen(self) -> None:
        """Make room in all candidates for the columns that were added."""
        width = self.columns.width
        for candidate in self.candidates:
            candidate.blocks.widen(width)


def add_rows(
    rows: Floats,
    joules: Floats,
    time_s: Floats,
    keep: Bools,
    ledger: Floats | None,
    filters: Innovations,
    candidates: list[Candidate],
) -> None:
    """Add n rows to candidates that differ in the filter's gain only.

    Args:
        rows: seconds per column, (n, width).
        joules, time_s: energy of each interval, and when it ended, (n,).
        keep: the rows that may be used, (n,).
        ledger: what each interval adds to the first candidate's ledger, (n, LINES, width).
        filters: of the candidates' gains, in their order.
    """
    filtered = filters.filter(np.concatenate([joules[keep, None], rows[keep]], axis=1))
    used = np.flatnonzero(keep)
    used = used[len(used) - filtered.shape[1] :]  # the first one only sets the filter
    for place, candidate in enumerate(candidates):
        of_rows = None
        if place == 0 and ledger is not None:  # what lies between two rows goes with the later
            total = np.concatenate([np.zeros((1, *ledger.shape[1:])), ledger.cumsum(0)])
            until = total[np.append(0, used + 1)]
            of_rows = np.diff(until, axis=0)
        candidate.blocks.add(filtered[place], time_s[used], of_rows)
        if of_rows is not None:
            candidate.blocks.note(total[-1] - until[-1])
