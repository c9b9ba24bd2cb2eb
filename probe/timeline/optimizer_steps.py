"""How often each of several optimizers has stepped, and in how many iterations of the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..ring.layout import Record
from .span_table import Rows


@dataclass(frozen=True, slots=True)
class OptimizerSteps:
    """Steps by the optimizer's name; empty where there was one optimizer.

    Optimizers that take turns (of a GAN) step in the same ``iterations``, as many as the one has
    that steps most; those that follow each other have iterations of their own. One that is made
    anew while another goes on (in each task of MAML) counts together with those that it replaced.
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
        stretches = []
        for code, number in self._steps.items():
            name = names.get(code, str(code)).removeprefix("optimizer/")
            steps[name] = number
            stretches.append(_Stretch(name.rpartition(" ")[0], *self._seen_ns[code], number))
        stretches.sort(key=lambda stretch: stretch.first_ns)
        return OptimizerSteps(steps, _iterations(stretches))


@dataclass(slots=True)
class _Stretch:
    """When an optimizer, or several in its place, stepped, and how often."""

    kind: str  # the class; empty of those that have one name together
    first_ns: int
    last_ns: int
    steps: int

    def is_replaced_by(self, later: _Stretch, stretches: Iterable[_Stretch]) -> bool:
        """Whether ``later`` is one of the same kind, made anew while another one goes on."""
        if self.last_ns > later.first_ns or later.kind not in (self.kind, ""):
            return False
        return any(s.first_ns < self.last_ns and later.first_ns < s.last_ns for s in stretches)


def _iterations(stretches: list[_Stretch]) -> int:
    """Of optimizers in the order of their first steps."""
    roles: list[_Stretch] = []
    for later in stretches:
        before = next((role for role in roles if role.is_replaced_by(later, stretches)), None)
        if before is None:
            roles.append(replace(later))
        else:
            before.last_ns, before.steps = later.last_ns, before.steps + later.steps
    total = most = 0
    end_ns = -1
    for role in roles:
        if role.first_ns >= end_ns:  # those before have stepped for the last time
            total, most = total + most, 0
        most, end_ns = max(most, role.steps), max(end_ns, role.last_ns)
    return total + most
