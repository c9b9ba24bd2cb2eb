"""The energy of one device as a function of time: a straight line between knots.

Before the first and after the last knot nothing was measured: the curve goes on at the
power next to it, and the caller learns how much of the energy that is. :mod:`energy_knots`
makes curves of what meters say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Floats, Times

# Mean power over so many updates, and so much time, continues the curve beyond its ends: the
# error of two update instants must not become one of power.
_EDGE_INTERVALS = 5
_EDGE_NS = 500_000_000
# A meter was not read between knots that are further apart than these.
_SILENT_NS, _SILENT_PERIODS = 3_000_000_000, 20


@dataclass(frozen=True, slots=True)
class EnergyCurve:
    """Cumulative energy of a device as n knots: ``joules[k]``, from any zero, at ``time_ns[k]``.

    ``slack_ns`` is the half-width within which a knot's time is known, as a rule; ``period_s`` the
    median distance of knots; ``resets`` how often the counter started anew (energy across a reset
    is unknown and not counted).
    """

    time_ns: Times
    joules: Floats
    slack_ns: float
    period_s: float
    resets: int = 0

    def at(self, time_ns: Times) -> Floats:
        """Cumulative energy in J at times (m,); beyond the knots at the power next to them."""
        inside = np.interp(time_ns, self.time_ns, self.joules)
        before = np.minimum(0, time_ns - self.time_ns[0])
        after = np.maximum(0, time_ns - self.time_ns[-1])
        return np.asarray(inside + before * self._slope(0) + after * self._slope(-1))

    def measured_share(self, begin_ns: int, end_ns: int) -> float:
        """Share of [begin, end) that lies between the first and the last knot."""
        inside = min(end_ns, int(self.time_ns[-1])) - max(begin_ns, int(self.time_ns[0]))
        return max(0.0, inside / max(1, end_ns - begin_ns))

    def sampled_share(self, begin_ns: int, end_ns: int) -> float:
        """Share of [begin, end) in which the meter was read.

        It is less than :meth:`measured_share` where the meter was silent for long: the recorder had
        died, the disk was full.
        """
        gaps = np.diff(self.time_ns)
        if not len(gaps):
            return 0.0
        # Of a thinned curve most knots lie a cell apart; then only longer silences are seen.
        longest = max(
            _SILENT_NS, _SILENT_PERIODS * self.period_s * 1e9, 2 * float(np.quantile(gaps, 0.9))
        )
        silent = np.flatnonzero(gaps > longest)
        begin, end = self.time_ns[silent], self.time_ns[silent + 1]
        silent_ns = np.clip(np.minimum(end, end_ns) - np.maximum(begin, begin_ns), 0, None).sum()
        share = self.measured_share(begin_ns, end_ns) - float(silent_ns) / max(1, end_ns - begin_ns)
        return max(0.0, share)

    def mean_power_w(self) -> float:
        """Mean power in W between the first and the last knot."""
        span = int(self.time_ns[-1] - self.time_ns[0])
        return float(self.joules[-1] - self.joules[0]) / (span / 1e9) if span else 0.0

    def length_s(self) -> float:
        """Seconds from the first to the last knot."""
        return float(self.time_ns[-1] - self.time_ns[0]) / 1e9

    def highest_power_w(self) -> float:
        """Highest mean power in W between two knots that are at least a period apart."""
        spans = np.diff(self.time_ns) / 1e9
        usual = spans > 0.5 * self.period_s
        powers = np.diff(self.joules)[usual] / spans[usual]
        return float(powers.max()) if len(powers) else self.mean_power_w()

    def thinned(self, width_ns: int) -> EnergyCurve:
        """A curve with fewer knots and the same total.

        Kept are the first and the last knot in each cell of this width, so that silences stay
        visible, and the knots at both ends on which the slopes there rest.
        """
        cell = (self.time_ns - self.time_ns[0]) // width_ns
        new = np.concatenate([[True], cell[1:] != cell[:-1], [True]])
        keep = new[:-1] | new[1:]
        keep[: self._edge(0) + 1] = True
        keep[self._edge(-1) :] = True
        return replace(self, time_ns=self.time_ns[keep], joules=self.joules[keep])

    def _edge(self, end: int) -> int:
        """How far the knots reach that say the power beyond an end."""
        most = len(self.time_ns) - 1
        if end == 0:
            far = int(np.searchsorted(self.time_ns, self.time_ns[0] + _EDGE_NS))
            return min(most, max(_EDGE_INTERVALS, far))
        far = int(np.searchsorted(self.time_ns, self.time_ns[-1] - _EDGE_NS, "right")) - 1
        return max(0, min(most - _EDGE_INTERVALS, far))

    def _slope(self, end: int) -> float:
        first, last = (0, self._edge(0)) if end == 0 else (self._edge(-1), len(self.time_ns) - 1)
        return float(self.joules[last] - self.joules[first]) / float(
            max(1, self.time_ns[last] - self.time_ns[first])
        )
