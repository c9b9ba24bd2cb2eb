"""The driver's ring of power samples (nvmlDeviceGetSamples, NVML_TOTAL_POWER_SAMPLES).

Finer than any polling where the driver fills it every 20 ms or so. It holds about 120
samples, so it is drained well before it wraps. Its timestamps are microseconds of a
clock that differs between drivers (wall clock or time since boot): which one is found
by comparing the newest sample with now.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

from ...clock import Clock
from ...model import Absence, Gap, Kind, Provenance, Reading, Sample, Source
from ...units import NS_PER_MS, NS_PER_S, NS_PER_US, W_PER_MW
from .._gap_log import GapLog
from .polling import Link
from .power_calls import power_of, union_value
from .session import Device, Failed, Session, attempt, failed

FINE_NS = 25 * NS_PER_MS  # coarser buffers say no more than direct reads
DRAIN_NS = 2 * NS_PER_S
TOTAL_POWER_SAMPLES = 0
NOT_FOUND = 6  # NVML: nothing newer than asked for
_STALE_NS = 5 * NS_PER_S


def _wall_offset_ns(clock: Clock) -> int:
    """Wall clock minus monotonic clock."""
    return time.time_ns() - time.monotonic_ns()


def _boot_offset_ns(clock: Clock) -> int:
    """Time since boot, suspend included, minus monotonic clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


_OFFSETS = {"wall clock": _wall_offset_ns, "time since boot": _boot_offset_ns}


class PowerBuffer:
    """Drains the buffer of one device."""

    def __init__(
        self,
        session: Session,
        link: Link,
        source: Source,
        clock_name: str,
        drain_ns: int,
        now_ns: int,
    ) -> None:
        self.source = source
        self._nvml, self._link = session.nvml, link
        self._offset = _OFFSETS[clock_name]
        self._drain_ns = drain_ns
        self._seen_us = 0
        self._last_ns: int | None = None
        self._gaps = GapLog(source.id, now_ns)
        self.next_ns = now_ns

    def read(self, clock: Clock, out: list[Reading]) -> None:
        kind = 1
        samples: list[Any] = []
        why: Failed | None = None
        try:
            kind, samples = fetch(self._nvml, self._link.handle, self._seen_us)
        except Exception as error:
            why = failed(error)
        now_ns = clock.now_ns()
        self.next_ns = now_ns + self._drain_ns
        if why is None or why.code == NOT_FOUND:
            why = self._take(kind, samples, now_ns, self._offset(clock), out)
        if why is None:
            gap = self._gaps.good(now_ns)
        else:
            gap = self._gaps.bad(now_ns, why.reason)
            if why.lost:
                self._link.renew(why, now_ns)
        if gap is not None:
            out.append(gap)

    def _take(
        self, kind: int, samples: list[Any], now_ns: int, offset_ns: int, out: list[Reading]
    ) -> Failed | None:
        wrong: Failed | None = None
        taken = 0
        for sample in samples:
            stamp = int(sample.timeStamp)
            time_ns = stamp * NS_PER_US - offset_ns
            if stamp <= self._seen_us or not now_ns - 60 * NS_PER_S < time_ns <= now_ns + NS_PER_S:
                continue  # an empty slot, or a clock that was set in between
            self._seen_us = stamp
            value = power_of(union_value(kind, sample.sampleValue))
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


def fetch(nvml: Any, handle: Any, seen_us: int) -> tuple[int, list[Any]]:
    """(value type, samples newer than ``seen_us``) by nvmlDeviceGetSamples."""
    kind, samples = nvml.nvmlDeviceGetSamples(handle, TOTAL_POWER_SAMPLES, seen_us)
    return int(kind), list(samples)


def open_buffer(
    session: Session, device: Device, link: Link, clock: Clock
) -> PowerBuffer | Absence:
    """The buffer if the device keeps one that is fine and whose clock is known."""

    def absence(reason: str) -> Absence:
        what = f"GPU {device.index} power samples"
        return Absence(sensor="nvml_power", what=what, reason=reason)

    answer = attempt(lambda: fetch(session.nvml, link.handle, 0))
    if isinstance(answer, Failed):
        return absence(answer.reason)
    stamps = sorted({int(sample.timeStamp) for sample in answer[1] if sample.timeStamp})
    if len(stamps) < 8:
        return absence("the driver's buffer is empty")
    steps = sorted(b - a for a, b in itertools.pairwise(stamps))
    spacing_ns = steps[len(steps) // 2] * NS_PER_US
    if spacing_ns > FINE_NS:
        spacing = f"{spacing_ns / NS_PER_MS:.0f} ms"
        return absence(f"samples every {spacing}: no finer than direct reads")
    now_ns = clock.now_ns()
    ages = {
        name: now_ns + offset(clock) - stamps[-1] * NS_PER_US for name, offset in _OFFSETS.items()
    }
    fitting = [name for name, age in ages.items() if -NS_PER_S // 20 <= age <= _STALE_NS]
    if not fitting:
        return absence("the samples' timestamps fit no known clock")
    source = Source(
        id=device.source_id("power_samples"),
        device=device.device,
        quantity="power_samples",
        unit="W",
        model=device.name,
        kind=Kind.GAUGE,
        provenance=Provenance.MEASURED,
        scale=W_PER_MW,
        uuid=device.uuid,
        method="samples",
        resolution_s=spacing_ns / NS_PER_S,
        attributable=not device.shared,
        note="; ".join(
            part for part in (f"driver buffer, stamped by {fitting[0]}", device.shared) if part
        ),
    )
    drain_ns = min(DRAIN_NS, round(0.6 * len(stamps) * spacing_ns))
    return PowerBuffer(session, link, source, fitting[0], drain_ns, now_ns)
