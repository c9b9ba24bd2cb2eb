"""Compares the energy counter with the power that is sampled beside it.

Known faults: a counter at a sixth of the true power, one that loses energy when it is
read fast, one that stands still. Over windows of at least 10 s the counter's slope is
compared with the mean of sampled power; the sampling's own error is allowed for, since
a training step's power swings far more than 3 % between two samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from ...units import J_PER_MJ, NS_PER_S, W_PER_MW

WINDOW_NS = 10 * NS_PER_S
TOLERANCE = 0.03


@dataclass(frozen=True, slots=True)
class Verdict:
    """One window: when it began, both powers in W, and whether they differ beyond doubt."""

    begin_ns: int
    counter_w: float
    sampled_w: float
    disagrees: bool

    @property
    def ratio(self) -> float:
        """The counter's power over the sampled power."""
        return self.counter_w / self.sampled_w


class CounterHealth:
    """Collects one window after another; :meth:`power` returns a verdict at its end."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget the window: the counter jumped, or the read rate changed."""
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None
        self._powers: list[float] = []

    def counter(self, time_ns: int, millijoules: float) -> None:
        """The counter was seen to change to this value."""
        self._last = (time_ns, millijoules)
        if self._first is None:
            self._first = self._last
            self._powers.clear()

    def power(self, now_ns: int, milliwatts: float) -> Verdict | None:
        """A power sample at ``now_ns``; closes the window when it is long enough."""
        self._powers.append(milliwatts)
        first, last = self._first, self._last
        if first is None or last is None or now_ns - first[0] < WINDOW_NS:
            # A counter that never changed has no slope yet; one that stopped has slope 0.
            return None
        count = len(self._powers)
        mean = sum(self._powers) / count
        spread = sqrt(sum((p - mean) ** 2 for p in self._powers) / max(1, count - 1))
        # Samples closer than a second may repeat each other: count every second one only.
        error = 4 * spread / sqrt(max(1.0, count / 2)) / mean
        span = last[0] - first[0]
        if now_ns - last[0] > WINDOW_NS // 2:
            span = now_ns - first[0]  # it stands still
        counter_w = (last[1] - first[1]) * J_PER_MJ / (span / NS_PER_S)
        sampled_w = mean * W_PER_MW
        self._first = self._last = last if now_ns - last[0] <= WINDOW_NS // 2 else (now_ns, last[1])
        self._powers.clear()
        off = abs(counter_w / sampled_w - 1)
        return Verdict(first[0], counter_w, sampled_w, off > TOLERANCE + error)
