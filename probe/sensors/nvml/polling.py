"""Gauges that are read at a fixed period: a call, the sources it feeds, what fails.

A meter is probed once when its sensor opens; what does not answer then is absent with
the reason. Later failures are gaps, a lost device is asked once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...clock import Clock
from ...model import Absence, Reading, Sample, Source
from ...units import NS_PER_MS, NS_PER_S
from .._gap_log import GapLog
from .._shared_wakeups import GRID_NS, on_grid
from .session import Device, Failed, Session, attempt, failed

GROUP_NS = 5 * NS_PER_MS  # meters due within this are read in one go

Values = Sequence[float | Failed]
Call = Callable[[Any], Values]  # takes the device's handle, returns one value a source


class Link:
    """The handle of one device, renewed when a lost device is asked again."""

    def __init__(self, session: Session, device: Device) -> None:
        self._session = session
        self._index = device.index
        self._renewed_ns = 0
        self.handle: Any = device.handle

    def renew(self, why: Failed, now_ns: int) -> None:
        """At most once a second, whichever meter found the device lost."""
        if now_ns - self._renewed_ns < NS_PER_S:
            return
        self._renewed_ns = now_ns
        if why.code == 1:
            self._session.revive()
        handle = self._session.fetch_handle(self._index)
        if not isinstance(handle, Failed):
            self.handle = handle


@dataclass(frozen=True, slots=True)
class Meter:
    """What one call measures, before it is known whether the device can."""

    sources: tuple[Source, ...]
    call: Call
    period_ns: int
    what: tuple[str, ...]  # for the absence: "GPU 0 temperature"
    slow_call_ns: int = NS_PER_S  # a call slower than this is made ten times more rarely


class Poll:
    """A meter that works: reads it when it is due."""

    def __init__(self, meter: Meter, keep: Sequence[int], link: Link, now_ns: int) -> None:
        self._call, self._link = meter.call, link
        self._period_ns = meter.period_ns
        self._kept = [(position, GapLog(meter.sources[position].id, now_ns)) for position in keep]
        self.next_ns = now_ns

    def read(self, clock: Clock, out: list[Reading]) -> None:
        begin_ns = clock.now_ns()
        try:
            values = self._call(self._link.handle)
        except Exception as error:
            values = [failed(error)] * (1 + self._kept[-1][0])
        end_ns = clock.now_ns()
        lost: Failed | None = None
        for position, gaps in self._kept:
            value = values[position]
            if isinstance(value, Failed):
                gap = gaps.bad(end_ns, value.reason)
                lost = value if value.lost else lost
            else:
                gap = gaps.good(end_ns)
                out.append(Sample(gaps.source, end_ns, value, end_ns - begin_ns))
            if gap is not None:
                out.append(gap)
        pause = self._period_ns
        if lost is not None:
            pause = max(pause, NS_PER_S)
            self._link.renew(lost, end_ns)
        # Keep the rhythm; after a pause of the whole thread do not catch up.
        self.next_ns = max(self.next_ns + pause, end_ns + 3 * pause // 4)
        if pause >= GRID_NS:
            self.next_ns = on_grid(self.next_ns)


def open_polls(
    meters: Sequence[Meter], link: Link, clock: Clock, sensor: str, absent: list[Absence]
) -> tuple[list[Poll], list[Source]]:
    """Probe each meter once; return what works and list the rest in ``absent``."""
    polls: list[Poll] = []
    sources: list[Source] = []
    for meter in meters:
        begin_ns = clock.now_ns()
        outcome = attempt(lambda meter=meter: meter.call(link.handle))  # type: ignore[misc]
        values: Values = [outcome] * len(meter.sources) if isinstance(outcome, Failed) else outcome
        if clock.now_ns() - begin_ns > meter.slow_call_ns:
            meter = Meter(meter.sources, meter.call, 10 * meter.period_ns, meter.what)
        keep: list[int] = []
        for position, (source, value) in enumerate(zip(meter.sources, values, strict=True)):
            if isinstance(value, Failed):
                absent.append(
                    Absence(sensor=sensor, what=meter.what[position], reason=value.reason)
                )
            else:
                keep.append(position)
                sources.append(source)
        if keep:
            polls.append(Poll(meter, keep, link, clock.now_ns()))
    return polls, sources


def bounded(value: Any, limit: float, what: str) -> float | Failed:
    """``value`` if it lies in [0, limit]; drivers answer all ones where they have nothing."""
    if isinstance(value, int | float) and 0 <= value <= limit:
        return float(value)
    return Failed(f"{what} reads {value!r}")
