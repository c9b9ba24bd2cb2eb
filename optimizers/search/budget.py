"""What a search may use: ``3h``, ``2kWh`` or both."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from probe.report.numbers import duration, energy

from ..errors import UsageError
from .outcome import Cost

_SECONDS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_JOULES = {"J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "kWh": 3.6e6}
_AMOUNT = re.compile(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([A-Za-z]+)\s*")


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds of all trainings together, and joules; infinite where not limited."""

    seconds: float = math.inf
    joules: float = math.inf

    @classmethod
    def of(cls, text: str) -> Budget:
        """``3h,2kWh``. Raises UsageError."""
        amounts: dict[str, float] = {}
        for part in text.split(","):
            match = _AMOUNT.fullmatch(part)
            try:
                if match is None:
                    raise ValueError
                kind = "seconds" if match[2] in _SECONDS else "joules"
                amount = float(match[1]) * (_SECONDS | _JOULES)[match[2]]
                if kind in amounts or not 0 < amount < math.inf:
                    raise ValueError
            except (ValueError, KeyError):
                raise UsageError(
                    f"--budget {text!r}: write a time, an energy or both, as 3h,2kWh "
                    f"({', '.join([*_SECONDS, *_JOULES])})"
                ) from None
            amounts[kind] = amount
        return cls(**amounts)

    @property
    def needs_meter(self) -> bool:
        """Whether it limits joules."""
        return math.isfinite(self.joules)

    def times(self, share: float) -> Budget:
        """A share of it."""
        return Budget(self.seconds * share, self.joules * share)

    def minus(self, cost: Cost) -> Budget:
        """What is left of it; not below 0."""
        return Budget(
            max(0.0, self.seconds - cost.seconds), max(0.0, self.joules - (cost.joules or 0.0))
        )

    def covers(self, cost: Cost, trainings: float = 1.0) -> bool:
        """Whether it is enough for so many trainings of that cost."""
        return (
            cost.seconds * trainings <= self.seconds
            and (cost.joules or 0.0) * trainings <= self.joules
        )

    def trainings(self, cost: Cost) -> float:
        """For how many trainings of that cost it is enough."""
        by_time = self.seconds / cost.seconds if cost.seconds else math.inf
        by_energy = self.joules / cost.joules if cost.joules else math.inf
        return min(by_time, by_energy)

    def __str__(self) -> str:
        parts = [duration(self.seconds)] if math.isfinite(self.seconds) else []
        return ", ".join(parts + ([energy(self.joules)] if self.needs_meter else []))
