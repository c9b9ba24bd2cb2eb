"""What the estimator has gathered of one meter: all that :mod:`solve` needs, of constant size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import Floats, Ints
from ..columns import Columns
from ..response.nuisance import EXTRAS
from ..spans import Spans
from .blocks import DIRECT_J, DIRECT_S, LINES, MIXED_J, MIXED_S
from .lanes import Lane

OLDER_RECORDING = "older recording"  # where nothing says what is unknown of the response


@dataclass(slots=True)
class Statistics:
    """All that the solver needs; constant size, additive over time.

    The first lane's blocks carry the ledger.
    """

    columns: Columns = field(default_factory=Columns)
    lanes: list[Lane] = field(default_factory=list)
    moments: dict[int, Floats] = field(default_factory=dict)  # (3,) count, Σd, Σd² of instances
    occupancy: dict[int, Ints] = field(default_factory=dict)  # (BINS,) updates by place in cycle
    before: dict[int, dict[int, int]] = field(default_factory=dict)  # phases it followed, counted
    begin_s: float = 0.0
    end_s: float = 0.0
    skipped: int = 0  # updates that waited too long for spans
    period_s: float = 0.1  # of the meter's updates
    wander_s: float = 0.0  # by how much updates come early or late, standard deviation
    unsure_s: tuple[float, float] = (0.0, 0.0)  # error of delay and lag that no fit makes smaller
    common_error_s: float = 0.0  # standard error that the dates of all updates share
    undated: bool = False  # at the end, the meter moved about as often as it was read
    ambiguous: bool = False  # a response far from all lanes explained the begin about as well
    response_from: str = "run"  # where the response is known from

    @property
    def of_older_recording(self) -> bool:
        """True if no rows can be added: another version summed other columns."""
        others = any(lane.extras not in (0, EXTRAS) for lane in self.lanes)
        return others or self.response_from == OLDER_RECORDING

    @property
    def ledger(self) -> Floats:
        """Plain sums over all blocks, (LINES, width)."""
        if not self.lanes:
            return np.zeros((LINES, self.columns.width))
        return np.asarray(self.lanes[0].blocks.ledger.sum(0))

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
        return int(self.lanes[0].blocks.rows.sum()) if self.lanes else 0

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
            lanes=[replace(x, blocks=x.blocks.between(begin_s, end_s)) for x in self.lanes],
        )

    def scaled(self, gain: float) -> Statistics:
        """The statistics as if the meter had shown ``gain`` times its joules."""
        return replace(
            self,
            lanes=[
                replace(x, blocks=x.blocks.scaled(gain), power_w=gain * x.power_w)
                for x in self.lanes
            ],
        )

    def count(self, spans: Spans) -> None:
        """Count phase instances that follow those before: their lengths, and what they follow."""
        for code, more in spans.moments().items():
            self.moments[code] = self.moments[code] + more if code in self.moments else more
        for code, before, count in spans.successions():
            followed = self.before.setdefault(code, {})
            followed[before] = followed.get(before, 0) + count

    def widen(self) -> None:
        """Make room in all lanes for the columns that were added."""
        for lane in self.lanes:
            lane.widen(self.columns.width)
