"""What a search makes smaller: time, energy, money or energy × time until the target is reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from probe.report.numbers import duration, energy, number
from probe.units import J_PER_KWH

Kind = Literal["time", "energy", "cost", "edp"]
KINDS: tuple[Kind, ...] = ("time", "energy", "cost", "edp")


@dataclass(frozen=True, slots=True)
class Objective:
    """One of :data:`KINDS`; ``per_kwh`` and ``per_hour`` are prices in ``currency``, for cost."""

    kind: Kind
    per_kwh: float = 0.0
    per_hour: float = 0.0
    currency: str = ""

    @property
    def needs_meter(self) -> bool:
        """Whether it has no value without measured joules."""
        return self.kind in ("energy", "edp") or (self.kind == "cost" and self.per_kwh > 0)

    def of(self, seconds: float, joules: float | None) -> float | None:
        """Its value; None where it needs joules and there are none."""
        if self.kind == "time":
            return seconds
        if joules is None:
            return None if self.needs_meter else self.per_hour * seconds / 3600
        if self.kind == "energy":
            return joules
        if self.kind == "edp":
            return joules * seconds
        return self.per_kwh * joules / J_PER_KWH + self.per_hour * seconds / 3600

    def written(self, value: float | None) -> str:
        """A value with its unit."""
        if value is None:
            return "—"
        sign, size = ("−" if value < 0 else ""), abs(value)
        if self.kind == "time":
            return sign + duration(size)
        if self.kind == "energy":
            return sign + energy(size)
        return f"{sign}{number(size)} {'J·s' if self.kind == 'edp' else self.currency}".rstrip()
