"""How often each of several optimizers has stepped, and in how many iterations of the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..ring.layout import Record
from .span_table import Rows


@dataclass(frozen=True, slots=True)
class OptimizerSteps:
    """Steps by the optimizer's name; empty where there was one optimizer.

    Optimizers that take turns (of a GAN) step in the same ``iterations``, as many as the one has
    that steps most; those that follow each other have iterations of their own.
    """

    steps: Mapping[str, int] = field(default_factory=dict)
    iterations: int = 0

    @classmethod
    def joined(cls, parts: Iterable[OptimizerSteps]) -> OptimizerSteps:
        """Of trainings that follow each other."""
        parts = list(parts)
        steps: Counter[str] = sum((Counter(part.steps) for part in parts), Counter())
        return cls(dict(steps), sum(part.iterations for part in parts))


class OptimizerCounter:
    """Counts from a ring's records, batch by batch; each has the optimizer's steps so far."""

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}
        self._seen_ns: dict[int, tuple[int, int]] = {}  # first and last

    def take(self, rows: Rows) -> None:
        """Rows that follow those before."""
        stepped = rows[rows["kind"] == Record.STEPPED]
        columns = (stepped[name].tolist() for name in ("code", "payload", "time_ns"))
        for code, steps, time_ns in zip(*columns, strict=True):
            self._steps[code] = max(steps, self._steps.get(code, 0))
            self._seen_ns[code] = self._seen_ns.get(code, (time_ns, 0))[0], time_ns

    def result(self, names: Mapping[int, str]) -> OptimizerSteps:
        """By name."""
        steps: dict[str, int] = {}
        for code, number in self._steps.items():
            steps[names.get(code, str(code)).removeprefix("optimizer/")] = number
        return OptimizerSteps(steps, self._iterations())

    def _iterations(self) -> int:
        total = most = 0
        end_ns = -1
        for code in sorted(self._steps, key=lambda code: self._seen_ns[code]):
            first_ns, last_ns = self._seen_ns[code]
            if first_ns >= end_ns:  # those before have stepped for the last time
                total, most = total + most, 0
            most, end_ns = max(most, self._steps[code]), max(end_ns, last_ns)
        return total + most
