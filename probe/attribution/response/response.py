"""The responses that a sensor is taken to have.

A sensor shows at t what the board drew before t, weighted by a kernel of mass 1. Three kernels
are enough for every card that was measured: a first-order lag, a moving average, and, for
sensors that look at power only during a part of each period, a window at the period's end.
Each may come late by a delay. A kernel is described by its mean m (delay + lag, or delay + half
the window) and its variance η (lag², or window²/12): for these the effect on what is shown has
no singular point where the lag vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

MEMORY = 13.0  # lags after which nothing of a power is left to show (2e-6)
_SMALLEST_S = 3e-4  # a shorter lag or window changes nothing that can be seen


class Kind(StrEnum):
    """Families of kernels."""

    LAG = "lag"
    AVERAGE = "average"
    PART_TIME = "part-time"


@dataclass(frozen=True, slots=True)
class Response:
    """One response: mean delay in s, variance of the kernel in s², and the family.

    ``window_s`` is what a part-time sensor integrates of each period; for a moving average the
    window follows from the variance.
    """

    mean_s: float = 0.0
    variance_s2: float = 0.0
    kind: Kind = Kind.LAG
    part_s: float = 0.0  # of a part-time sensor: the window that it integrates

    @classmethod
    def of(cls, delay_s: float, tau_s: float = 0.0) -> Response:
        """A delay and a first-order lag."""
        return cls(delay_s + tau_s, tau_s * tau_s)

    @classmethod
    def averaging(cls, delay_s: float, window_s: float) -> Response:
        """A delay and a moving average."""
        return cls(delay_s + window_s / 2, window_s * window_s / 12, Kind.AVERAGE)

    @classmethod
    def part_time(cls, window_s: float, delay_s: float = 0.0, tau_s: float = 0.0) -> Response:
        """A window at the end of each period, with a delay and a lag before it."""
        return cls(delay_s + tau_s, tau_s * tau_s, Kind.PART_TIME, window_s)

    @property
    def tau_s(self) -> float:
        """Time constant of the first-order lag."""
        return 0.0 if self.kind is Kind.AVERAGE else self.variance_s2**0.5

    @property
    def window_s(self) -> float:
        """Window of a moving average, or what a part-time sensor integrates; else 0."""
        if self.kind is Kind.AVERAGE:
            return float((12 * self.variance_s2) ** 0.5)
        return self.part_s

    @property
    def delay_s(self) -> float:
        """Delay before the lag or the window."""
        spread = self.window_s / 2 if self.kind is Kind.AVERAGE else self.tau_s
        return self.mean_s - spread

    @property
    def memory_s(self) -> float:
        """How long before an instant power still counts at it, the delay left out."""
        if self.kind is Kind.AVERAGE:
            return self.window_s if self.window_s > _SMALLEST_S else 0.0
        return MEMORY * self.tau_s if self.tau_s > _SMALLEST_S else 0.0

    @property
    def reach_s(self) -> float:
        """How far before an update spans must be known for its row."""
        return max(0.0, self.delay_s) + self.memory_s + self.part_s

    def moved(self, mean_s: float, variance_s2: float, part_s: float | None = None) -> Response:
        """The same family with other parameters."""
        part = self.part_s if part_s is None else part_s
        return replace(self, mean_s=mean_s, variance_s2=max(variance_s2, 0.0), part_s=part)
