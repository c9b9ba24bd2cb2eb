"""CPU and memory energy: the RAPL counters of Linux powercap, µJ, updated about once a ms.

Packages and DRAM count into the measured total; a platform counter (psys) does only
where no package can be read, because it holds the same joules again. Core and uncore
lie inside their package. The counters of the total are read every 20 ms, the others
once a second; both more slowly where a read is expensive, so that reading stays below
0.4 % of one core.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from ..errors import SensorUnavailable
from ..model import Absence, Gap, Kind, Provenance, Reading, Sample, Source
from ..units import J_PER_UJ, NS_PER_MS, NS_PER_S
from . import SensorContext
from ._gaps import GapLog
from ._powercap import NO_TREE, Zone, measured_by, read_uj, scan

PERIOD_NS = 20 * NS_PER_MS
SLOW_NS = NS_PER_S  # the counters outside the total
SHARE = 250  # a pass that takes t is made every 250 t at most
UPDATE_S = 0.001
_SETTLE_NS = NS_PER_MS  # nothing new can be read sooner
_PLATFORM_MAX_W, _MAX_W = 20_000.0, 2_000.0  # nothing draws more: beyond it a step is no energy
_SLACK_S = 0.05


class _Counter:
    """One open ``energy_uj``, followed over wraparounds, restarts and absences.

    The raw value is handed on until the counter starts anew for another reason than a
    wraparound (suspend, a reloaded module). From there it is continued and a Gap marks
    the place, so that no reader takes a restart for a wraparound worth 262 kJ.
    """

    def __init__(self, zone: Zone, period_ns: int, now_ns: int) -> None:
        self.zone = zone
        self.source = f"rapl:{zone.key}"
        self.period_ns = period_ns
        self.next_ns = now_ns
        self.last_ns = now_ns  # of the last good read
        self._last: int | None = None  # its raw value
        self._offset = 0  # handed on minus raw
        self._gaps = GapLog(self.source, now_ns)
        self._max_w = _PLATFORM_MAX_W if zone.kind == "psys" else _MAX_W
        self._fd = os.open(zone.file, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, now: Callable[[], int], out: list[Reading]) -> None:
        """Read once and append what it means."""
        begin_ns = now()
        try:
            if self._fd < 0:
                self._fd = os.open(self.zone.file, os.O_RDONLY | os.O_CLOEXEC)
            raw = read_uj(self._fd)
        except (OSError, ValueError) as error:
            self._failed(now(), error, out)
            return
        end_ns = now()
        if self._last is not None:
            self._check(raw, self._last, end_ns, out)
        if self._gaps.failing and (gap := self._gaps.good(end_ns)) is not None:
            out.append(gap)
        self._gaps.good(end_ns)
        self._last, self.last_ns, self.next_ns = raw, end_ns, end_ns + self.period_ns
        value = raw + self._offset
        if self._offset and self.zone.wrap_uj:
            value %= self.zone.wrap_uj
        out.append(Sample(self.source, end_ns, float(value), end_ns - begin_ns))

    def _check(self, raw: int, last: int, end_ns: int, out: list[Reading]) -> None:
        """Does ``raw`` follow from the last value? If not, continue the counter over a Gap."""
        wrap, step = self.zone.wrap_uj, raw - last
        if step < 0 and wrap:
            step += wrap
        seconds = (end_ns - self.last_ns) / NS_PER_S + _SLACK_S
        most = self._max_w * seconds / J_PER_UJ
        if wrap and most > wrap:  # so long a pause that whole turns may have been missed
            why = f"not read for {seconds:.0f} s: the counter may have wrapped more than once"
        elif not 0 <= step <= most:
            why = f"the counter went from {last} to {raw} µJ: it was started anew"
            if step < 0:
                why += ", or it wrapped at an unknown value"
        else:
            return
        self._offset += last - raw
        self._gaps.good(end_ns)  # what was missed lies inside this gap
        out.append(Gap(self.source, self.last_ns, end_ns, why))

    def _failed(self, end_ns: int, error: Exception, out: list[Reading]) -> None:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        gap = self._gaps.bad(end_ns, f"energy_uj cannot be read: {reason}")
        if gap is not None:
            out.append(gap)
        self.close()  # a domain that comes back has another file
        self.next_ns = end_ns + NS_PER_S

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


class RaplSensor:
    """Energy of the CPU packages, their memory, and the platform."""

    name: ClassVar[str] = "rapl"

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self._context = context
        self._counters: list[_Counter] = []
        self._cost_ns = 0.0  # of one pass over the counters of the total

    def open(self) -> Sequence[Source]:
        context = self._context
        zones = scan(context.powercap_root, context.proc_root)
        if not zones:
            raise SensorUnavailable(NO_TREE)
        self.absent = [
            Absence(sensor=self.name, what=_what(zone), reason=zone.problem, remedy=zone.remedy)
            for zone in zones
            if not zone.usable
        ]
        measured = measured_by(zones)
        packages = any(zone.kind == "package" and zone.usable for zone in zones)
        sources: list[Source] = []
        for zone in zones:
            if not zone.usable:
                continue
            total = zone.kind in ("package", "dram") if packages else _alone(zone, measured)
            try:
                period_ns = PERIOD_NS if total else SLOW_NS
                self._counters.append(_Counter(zone, period_ns, context.clock.now_ns()))
            except OSError as error:  # it went away since the scan
                why = f"energy_uj cannot be opened: {error.strerror}"
                self.absent.append(Absence(sensor=self.name, what=_what(zone), reason=why))
                continue
            sources.append(_source(zone, total))
        if not sources:
            first = next((a for a in self.absent if a.remedy), self.absent[0])
            raise SensorUnavailable(f"{first.what}: {first.reason}", first.remedy)
        return sources

    def read(self) -> Iterable[Reading]:
        out: list[Reading] = []
        now = self._context.clock.now_ns
        begin_ns = now()
        due = begin_ns + _SETTLE_NS
        early = self.next_read_ns() > due  # asked before the time: the last read of a run
        fast = 0
        for counter in self._counters:
            if counter.next_ns <= due or (early and begin_ns - counter.last_ns >= _SETTLE_NS):
                counter.read(now, out)
                fast += counter.period_ns != SLOW_NS
        if fast:
            self._cost_ns += 0.05 * (now() - begin_ns - self._cost_ns)
            self._pace()
        return out

    def _pace(self) -> None:
        """Read more rarely where reads are expensive (a call to another socket, a slow VM)."""
        period_ns = min(SLOW_NS - 1, max(PERIOD_NS, round(SHARE * self._cost_ns)))
        for counter in self._counters:
            if counter.period_ns != SLOW_NS:
                counter.period_ns = period_ns

    def next_read_ns(self) -> int:
        if not self._counters:
            return self._context.clock.now_ns() + NS_PER_S
        return min(counter.next_ns for counter in self._counters)

    def close(self) -> None:
        counters, self._counters = self._counters, []
        for counter in counters:
            counter.close()


def _alone(zone: Zone, measured: set[str]) -> bool:
    """Without a package: the platform counts, and memory only if the platform does not."""
    return zone.kind == "psys" or (zone.kind == "dram" and "cpu" not in measured)


def _what(zone: Zone) -> str:
    return f"{zone.device} energy ({zone.key})"


def _source(zone: Zone, total: bool) -> Source:
    notes = {
        "psys": "whole platform; holds CPU and memory" + ("" if total else " again"),
        "core": "part of its package",
        "uncore": "part of its package",
    }
    note = notes.get(zone.kind, "")
    if zone.wrap_uj is None:
        note = "; ".join(filter(None, (note, "where it wraps is unknown: a wrap is a gap")))
    return Source(
        id=f"rapl:{zone.key}",
        device=zone.device,
        quantity="energy",
        unit="J",
        kind=Kind.COUNTER,
        provenance=Provenance.MEASURED,
        scale=J_PER_UJ,
        method="rapl",
        resolution_s=UPDATE_S,
        wrap_raw=None if zone.wrap_uj is None else float(zone.wrap_uj),
        in_total=total,
        note=note,
    )
