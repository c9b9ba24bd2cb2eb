"""Time since a run's begin in the unit that suits its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..chart_data import Floats
from .style import axis


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Of a chart's x axis."""

    seconds: float  # in one unit
    unit: str

    @classmethod
    def of(cls, duration_s: float) -> TimeScale:
        """For a run of this length."""
        if duration_s <= 600:
            return cls(1.0, "s")
        if duration_s <= 3 * 3600:
            return cls(60.0, "min")
        if duration_s <= 4 * 86400:
            return cls(3600.0, "h")
        return cls(86400.0, "days")

    def axis(self, span: tuple[float, float] | None = None, **more: Any) -> dict[str, Any]:
        """With what is looked at, if that is not everything."""
        if span is not None:
            more |= {"range": [self.at(span[0]), self.at(span[1])], "autorange": False}
        return axis(f"since the run's begin ({self.unit})", **more)

    def at(self, seconds: float) -> float:
        """In the unit."""
        return seconds / self.seconds

    def values(self, seconds: Floats) -> list[float | None]:
        """In the unit, with enough digits for a microsecond in a minute."""
        return [None if s != s else round(float(s) / self.seconds, 7) for s in seconds]
