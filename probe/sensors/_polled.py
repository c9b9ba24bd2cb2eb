"""Sensors whose meters are read one by one, each at a period of its own.

A subclass says which meters there are (:meth:`PolledSensor.find`); the rest of a sensor's life is
here. A read that fails is a gap, and what failed is asked once a second at most. A counter that
falls, or grows by more than its device can draw, started anew: never a negative joule, never a
jump.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ..clock import Clock
from ..errors import SensorUnavailable
from ..model import RESTARTED, Absence, Gap, Kind, Reading, Sample, Source
from ..units import NS_PER_MS, NS_PER_S
from ._gap_log import GapLog
from ._schedule import IrregularPeriods
from .base import SensorContext

_SLACK_S = 2.0  # a counter may show at once what it gathered for so long
_TOGETHER_NS = NS_PER_MS  # what is due so soon is read now


class CounterAnew(Exception):
    """A meter knows that its counter started anew: its values are not to be subtracted."""


@dataclass
class PolledMeter:
    """One source and the call that reads its raw value.

    ``most`` is more than the device can add to a counter in a second, in the source's unit;
    ``call`` may raise anything.
    """

    source: Source
    call: Callable[[], float]
    period_ns: int
    most: float = 1e5
    due_ns: int = 0
    _last: tuple[int, float] | None = None
    _gaps: GapLog = field(init=False)

    def __post_init__(self) -> None:
        self._gaps = GapLog(self.source.id, self.due_ns)

    @property
    def irregular(self) -> bool:
        """True for a counter that may move faster than it is read."""
        return self.source.kind is Kind.COUNTER and self.source.dated

    def read(self, clock: Clock, period_share: float = 1.0) -> list[Reading]:
        """One read as a sample, or as a gap with the reason. Never raises.

        Args:
            period_share: the time until the next read over the period, if the reads are irregular.
        """
        begin_ns = clock.now_ns()
        period_ns = round(period_share * self.period_ns) if self.irregular else self.period_ns
        self.due_ns = max(begin_ns, self.due_ns) + period_ns
        try:
            value = float(self.call())
        except CounterAnew:
            before, self._last = self._last, None
            since_ns = begin_ns if before is None else before[0]
            return [Gap(self.source.id, since_ns, clock.now_ns(), RESTARTED)]
        except Exception as error:
            self._last = None if self.source.kind is Kind.GAUGE else self._last
            self.due_ns = max(self.due_ns, begin_ns + NS_PER_S)
            gap = self._gaps.bad(clock.now_ns(), _reason(error))
            return [gap] if gap is not None else []
        end_ns = clock.now_ns()
        out: list[Reading] = []
        if (gap := self._gaps.good(end_ns)) is not None:
            out.append(gap)
        before, self._last = self._last, (end_ns, value)
        if self.source.kind is Kind.COUNTER and before is not None:
            added = (value - before[1]) * self.source.scale
            most = self.most * ((end_ns - before[0]) / NS_PER_S + _SLACK_S)
            if not 0 <= added <= most:
                out.append(Gap(self.source.id, before[0], begin_ns, RESTARTED))
        out.append(Sample(self.source.id, end_ns, value, end_ns - begin_ns))
        return out


class PolledSensor(ABC):
    """A sensor that reads each of its meters when it is due."""

    name: ClassVar[str]

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self.context = context
        self._meters: list[PolledMeter] = []
        self._periods = IrregularPeriods()

    @abstractmethod
    def find(self) -> list[PolledMeter]:
        """The meters that answer; what does not is listed in ``absent``.

        Raises:
            SensorUnavailable: with the reason and the remedy, when there is none.
        """

    def open(self) -> Sequence[Source]:
        """Find the meters. Raises SensorUnavailable if none answers."""
        now_ns = self.context.clock.now_ns()
        self._meters = self.find()
        if not self._meters:
            first = self.absent[0]
            raise SensorUnavailable(first.reason, first.remedy)
        for meter in self._meters:
            meter.due_ns = now_ns
        return [meter.source for meter in self._meters]

    def read(self) -> Iterable[Reading]:
        """Read what is due. Never raises; a failure is a gap."""
        due_ns = self.context.clock.now_ns() + _TOGETHER_NS
        readings: list[Reading] = []
        share = self._periods.next_share()  # one for all: those that are due together stay so
        for meter in self._meters:
            if meter.due_ns <= due_ns:
                readings += meter.read(self.context.clock, share)
        return readings

    def next_read_ns(self) -> int:
        """When the first meter is due again."""
        now_ns = self.context.clock.now_ns()
        return min((meter.due_ns for meter in self._meters), default=now_ns + NS_PER_S)

    def close(self) -> None:
        """Forget the meters. Idempotent."""
        self._meters = []

    def absence(self, what: str, reason: str, remedy: str | None = None) -> None:
        """List a meter as absent."""
        self.absent.append(Absence(sensor=self.name, what=what, reason=reason, remedy=remedy))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be read: {error.strerror}"
    return f"{type(error).__name__}: {error}"
