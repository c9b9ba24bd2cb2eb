"""What a report says of one meter, gathered as a run goes on: its curve, its phases' shares.

The run is gone through in pieces that end at knots. A piece is split among the phases
(:func:`time_split.split`) once its knots do not change any more and its spans are known; shares add
up, and of the curve stays what a chart needs. What is held does not grow with the run, and a
report of a week reads this instead of its samples and edges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Bools, Floats, Times
from ..time_split import TimeShares, split
from .energy_curve import EnergyCurve
from .energy_knots import EnergyKnots

# Bounds are kept for these powers, since the highest is known at the end only; 10 % apart.
POWERS_W = np.geomspace(1.0, 1.1**120, 121)
MOST_KNOTS = 4096  # of the curve that is kept
_ROOM = 0.75  # of these, after it was thinned: new ones come
_MOST_WAITING = 200_000  # knots without spans, a phase of hours; or spans without knots
_CELL_NS = 250_000_000  # at first
_SETTLED_NS = 2_000_000_000  # so far before the last read no knot changes any more
_SETTLED_PERIODS = 8


@dataclass(frozen=True, slots=True)
class MeterSummary:
    """What the readings of one meter over a run come to.

    ``samples`` were read, ``highest`` the highest of them in the source's unit, ``spread`` their
    standard deviation; ``curve`` has at most some thousand knots and is None if the meter
    hardly moved; ``highest_w`` the highest mean power between knots; ``shares`` None if no phases
    are held against it.
    """

    samples: int
    highest: float
    spread: float
    curve: EnergyCurve | None = None
    highest_w: float = 0.0
    shares: TimeShares | None = None

    def with_curve(self, curve: EnergyCurve | None) -> MeterSummary:
        """This summary with a curve and the highest power that the curve shows."""
        if curve is None:
            return self
        return replace(self, curve=curve, highest_w=curve.highest_power_w())


class SampleStatistics:
    """Number, mean, spread and maximum of the samples of any source."""

    def __init__(self) -> None:
        self._count, self._sum, self._squares, self._highest = 0, 0.0, 0.0, -np.inf

    def feed(self, value: Floats) -> None:
        """Take further samples (n,) in the source's unit."""
        if len(value):
            self._count += len(value)
            self._sum += float(value.sum())
            self._squares += float(value @ value)
            self._highest = max(self._highest, float(value.max()))

    def finish(self) -> MeterSummary:
        """A summary without a curve."""
        if not self._count:
            return MeterSummary(0, 0.0, 0.0)
        mean = self._sum / self._count
        variance = max(0.0, self._squares / self._count - mean * mean)
        return MeterSummary(self._count, self._highest, variance**0.5)


class MeterSummarizer:
    """Summarizes a meter of energy or power and the spans of the one rank that it explains."""

    def __init__(self, knots: EnergyKnots, begin_ns: int):
        """A summarizer without any reads.

        Args:
            knots: makes knots of its reads.
            begin_ns: of the run.
        """
        self._knots, self._cut_ns = knots, begin_ns
        self._levels = SampleStatistics()
        self._waiting: EnergyCurve | None = None  # from a little before the cut on
        self._kept: EnergyCurve | None = None  # the whole curve, thinned
        self._cell_ns = _CELL_NS
        self._highest_w = 0.0
        self._periods_s: list[float] = []
        self._shares: TimeShares | None = None
        self._given_up = False
        none = np.empty(0, np.int64)
        self._begin_ns, self._end_ns, self._code = none, none, none  # spans that end after the cut

    def feed_reads(self, time_ns: Times, value: Floats, span_ns: Times) -> None:
        """Take further reads in order, arrays (n,); ``value`` scaled to J or W."""
        self._levels.feed(value)
        self._knots.feed(time_ns, value, span_ns)

    def restart(self, at_ns: int) -> None:
        """Note that the meter started anew at this instant."""
        self._knots.restart(at_ns)

    def feed_spans(self, begin_ns: Times, end_ns: Times, code: Times) -> None:
        """Take further complete phase instances, arrays (n,), that follow those before."""
        if len(begin_ns) and not self._given_up:
            self._begin_ns = np.concatenate([self._begin_ns, begin_ns])
            self._end_ns = np.concatenate([self._end_ns, end_ns])
            self._code = np.concatenate([self._code, code])

    def give_up(self) -> None:
        """Keep no shares: the device is not one rank's, or its spans cannot be followed."""
        self._given_up, self._shares = True, None
        self._begin_ns = self._end_ns = self._code = np.empty(0, np.int64)

    def advance(self) -> None:
        """Split among the phases what does not change any more."""
        curve = self._knots.curve()
        needed_ns = self._cut_ns
        if curve is not None:
            settled_ns = int(curve.time_ns[-1]) - self._margin_ns(curve)
            self._take(curve, settled_ns)
            needed_ns = settled_ns - self._margin_ns(curve)
        self._knots.forget(needed_ns)
        if self._waiting is not None:
            if max(len(self._waiting.time_ns), len(self._end_ns)) > _MOST_WAITING:
                self.give_up()
            if self._given_up:
                self._split(int(self._waiting.time_ns[-1]))
            elif len(self._end_ns):
                self._split(int(self._end_ns[-1]))

    def finish(self, end_ns: int) -> MeterSummary:
        """The summary of all that was fed; the run ended at ``end_ns``."""
        curve = self._knots.curve()
        if curve is not None:
            self._take(curve, int(curve.time_ns[-1]))
        summary = self._levels.finish()
        if self._kept is None:
            return summary
        if end_ns <= self._cut_ns:
            self.give_up()
        self._split(end_ns, last=True)
        kept = replace(
            self._kept, period_s=float(np.median(self._periods_s)), resets=self._knots.resets
        )
        return replace(
            summary,
            curve=kept,
            highest_w=self._highest_w,
            shares=None if self._given_up else self._shares,
        )

    @staticmethod
    def _margin_ns(curve: EnergyCurve) -> int:
        return max(_SETTLED_NS, round(_SETTLED_PERIODS * curve.period_s * 1e9))

    def _take(self, curve: EnergyCurve, until_ns: int) -> None:
        """Take the knots of ``curve`` that are new, up to an instant."""
        new = curve.time_ns <= until_ns
        if self._kept is not None:
            # The last one may have been dated anew by a moment.
            new &= curve.time_ns > self._kept.time_ns[-1] + curve.period_s * 0.25e9
        if not new.any():
            return
        self._periods_s.append(curve.period_s)
        self._kept = _append(self._kept, curve, new)
        if len(self._kept.time_ns) > MOST_KNOTS:
            self._kept = self._kept.thinned(self._cell_ns)
            while len(self._kept.time_ns) > _ROOM * MOST_KNOTS:
                self._cell_ns *= 2
                self._kept = self._kept.thinned(self._cell_ns)
        self._waiting = _append(self._waiting, curve, new)
        self._highest_w = max(self._highest_w, self._waiting.highest_power_w())

    def _split(self, until_ns: int, *, last: bool = False) -> None:
        """Split the run up to the last knot by then, or with ``last`` up to then."""
        curve = self._waiting
        if curve is None:
            return
        if not last:
            place = int(np.searchsorted(curve.time_ns, until_ns, "right")) - 1
            until_ns = int(curve.time_ns[place]) if place >= 0 else self._cut_ns
            reaches_ns = int(curve.time_ns[-1] - curve.time_ns[0])
            if self._shares is None and reaches_ns < self._margin_ns(curve):
                return  # the power before the first knot is not known well yet
        if until_ns <= self._cut_ns:
            return
        if not self._given_up:
            inside = int(np.searchsorted(self._begin_ns, until_ns))
            piece = split(
                curve,
                self._begin_ns[:inside],
                self._end_ns[:inside],
                self._code[:inside],
                (self._cut_ns, until_ns),
                POWERS_W,
            )
            self._shares = piece if self._shares is None else self._shares + piece
            over = int(np.searchsorted(self._end_ns, until_ns, "right"))
            self._begin_ns, self._end_ns = self._begin_ns[over:], self._end_ns[over:]
            self._code = self._code[over:]
        self._cut_ns = until_ns
        near = curve.time_ns >= until_ns - self._margin_ns(curve)
        self._waiting = replace(curve, time_ns=curve.time_ns[near], joules=curve.joules[near])


def _append(before: EnergyCurve | None, curve: EnergyCurve, new: Bools) -> EnergyCurve:
    time_ns, joules = curve.time_ns[new], curve.joules[new]
    if before is not None:
        time_ns = np.concatenate([before.time_ns, time_ns])
        joules = np.concatenate([before.joules, joules])
    return replace(curve, time_ns=time_ns, joules=joules)
