"""The driver's ring of samples of a quantity (nvmlDeviceGetSamples): power, utilisation.

Each sample is the mean since the one before. The ring holds about 120 of them, so it is drained
well before it wraps. Its timestamps are microseconds of a clock that differs between drivers (wall
clock or time since boot): which one is found by comparing the newest sample with now.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...clock import Anchor, Clock
from ...model import Absence, Gap, Reading, Sample, Source
from ...units import NS_PER_MS, NS_PER_S, NS_PER_US
from .._gap_log import GapLog
from .devices import Device, DeviceHandle
from .session import Failed, Session, attempt, failed

DRAIN_NS = 2 * NS_PER_S
NOT_FOUND = 6  # NVML: nothing newer than asked for
_STALE_NS = 5 * NS_PER_S
_BEFORE_NS = NS_PER_S  # sensors open some tenths of a second after the run's begin
_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


@dataclass(frozen=True, slots=True)
class SampledQuantity:
    """What the driver samples: ``number`` is its NVML_…_SAMPLES, ``name`` for people.

    ``value_of`` makes a raw value of a sample, or says why it cannot be one. Samples that lie
    further apart than ``widest_ns`` are not used.
    """

    number: int
    name: str
    value_of: Callable[[object], float | Failed]
    widest_ns: int


def union_value(kind: int, union: Any) -> object:
    """The member of nvmlValue_t that its type names; None for an unknown type."""
    return getattr(union, _MEMBERS[kind]) if kind in _MEMBERS else None


def _wall_offset_ns() -> int:
    """Wall clock minus monotonic clock."""
    anchor = Anchor.now()
    return anchor.wall_ns - anchor.monotonic_ns


def _boot_offset_ns() -> int:
    """Time since boot, suspend included, minus monotonic clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


_OFFSETS: dict[str, Callable[[], int]] = {
    "wall clock": _wall_offset_ns,
    "time since boot": _boot_offset_ns,
}


class SampleBuffer:
    """Drains the buffer of one device."""

    def __init__(
        self,
        session: Session,
        handle: DeviceHandle,
        quantity: SampledQuantity,
        source: Source,
        clock_name: str,
        drain_ns: int,
        now_ns: int,
    ) -> None:
        self.source = source
        self._quantity = quantity
        self._nvml, self._handle = session.nvml, handle
        self._offset = _OFFSETS[clock_name]
        self._drain_ns = drain_ns
        self._seen_us = (now_ns - _BEFORE_NS + self._offset()) // NS_PER_US
        self._last_ns: int | None = None
        self._gaps = GapLog(source.id, now_ns)
        self.next_ns = now_ns

    def read(self, clock: Clock, out: list[Reading]) -> None:
        kind = 1
        samples: list[Any] = []
        why: Failed | None = None
        try:
            kind, samples = fetch(
                self._nvml, self._handle.value, self._quantity.number, self._seen_us
            )
        except Exception as error:
            why = failed(error)
        now_ns = clock.now_ns()
        self.next_ns = now_ns + self._drain_ns
        if why is None or why.code == NOT_FOUND:
            why = self._take(kind, samples, now_ns, self._offset(), out)
        if why is None:
            gap = self._gaps.good(now_ns)
        else:
            gap = self._gaps.bad(now_ns, why.reason)
            if why.lost:
                self._handle.renew(why, now_ns)
        if gap is not None:
            out.append(gap)

    def _take(
        self, kind: int, samples: list[Any], now_ns: int, offset_ns: int, out: list[Reading]
    ) -> Failed | None:
        """Append new samples; why there is none, if that is a failure."""
        wrong: Failed | None = None
        taken = 0
        for sample in samples:
            stamp = int(sample.timeStamp)
            time_ns = stamp * NS_PER_US - offset_ns
            if stamp <= self._seen_us or not now_ns - 60 * NS_PER_S < time_ns <= now_ns + NS_PER_S:
                continue  # an empty slot, or a clock that was set in between
            self._seen_us = stamp
            value = self._quantity.value_of(union_value(kind, sample.sampleValue))
            if isinstance(value, Failed):
                wrong = value
                continue
            last = self._last_ns
            if last is not None and time_ns <= last:
                continue
            if last is not None and taken == 0 and time_ns - last > self._drain_ns:
                out.append(Gap(self.source.id, last, time_ns, "the driver's buffer ran over"))
            out.append(Sample(self.source.id, time_ns, value))
            self._last_ns = time_ns
            taken += 1
        if taken:
            return None
        if wrong is not None:
            return wrong
        if self._last_ns is not None and now_ns - self._last_ns > _STALE_NS:
            return Failed("the driver's buffer has no new samples")
        return None


def fetch(nvml: Any, handle: Any, number: int, seen_us: int) -> tuple[int, list[Any]]:
    """(value type, samples newer than ``seen_us``) by nvmlDeviceGetSamples."""
    kind, samples = nvml.nvmlDeviceGetSamples(handle, number, seen_us)
    return int(kind), list(samples)


MakeSource = Callable[[float, str], Source]
"""Of the spacing of the samples in s, and of a note on them."""


def open_buffer(
    sensor: str,
    session: Session,
    device: Device,
    clock: Clock,
    quantity: SampledQuantity,
    source: MakeSource,
) -> SampleBuffer | Absence:
    """The buffer, if the device keeps one that is fine enough and whose clock is known."""
    handle = DeviceHandle(session, device)

    def absence(reason: str) -> Absence:
        what = f"GPU {device.index} {quantity.name}"
        return Absence(sensor=sensor, what=what, reason=reason)

    answer = attempt(lambda: fetch(session.nvml, handle.value, quantity.number, 0))
    if isinstance(answer, Failed):
        return absence(answer.reason)
    stamps = sorted({int(sample.timeStamp) for sample in answer[1] if sample.timeStamp})
    if len(stamps) < 8:
        return absence("the driver's buffer is empty")
    steps = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    spacing_ns = statistics.median_high(steps) * NS_PER_US
    if spacing_ns > quantity.widest_ns:
        spacing = f"{spacing_ns / NS_PER_MS:.0f} ms"
        return absence(f"samples every {spacing}: no finer than direct reads")
    now_ns = clock.now_ns()
    ages = {name: now_ns + offset() - stamps[-1] * NS_PER_US for name, offset in _OFFSETS.items()}
    fitting = [name for name, age in ages.items() if -NS_PER_S // 20 <= age <= _STALE_NS]
    if not fitting:
        return absence("the samples' timestamps fit no known clock")
    note = "; ".join(filter(None, (f"driver buffer, stamped by {fitting[0]}", device.shared)))
    drain_ns = min(DRAIN_NS, round(0.6 * len(stamps) * spacing_ns))
    return SampleBuffer(
        session, handle, quantity, source(spacing_ns / NS_PER_S, note), fitting[0], drain_ns, now_ns
    )
