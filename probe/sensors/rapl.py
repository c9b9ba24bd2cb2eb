"""CPU and memory energy: the RAPL counters of Linux powercap, µJ, updated about once a ms.

Packages and DRAM count into the measured total; a platform counter (psys) does only
where no package can be read, because it holds the same joules again. Core and uncore
lie inside their package. The counters of the total are read every 20 ms in the mean, the
others once a second.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import ClassVar

from ..errors import SensorUnavailable
from ..model import RESTARTED, Absence, Gap, Kind, Provenance, Reading, Sample, Source
from ..units import J_PER_UJ, NS_PER_MS, NS_PER_S
from ._gap_log import GapLog
from ._powercap import NO_TREE, Zone, cpu_vendor, read_uj, scan
from ._schedule import IrregularPeriods
from .base import SensorContext

PERIOD_NS = 20 * NS_PER_MS
SLOW_NS = NS_PER_S
COUNTED = ("package", "dram")
_MOST_W = 5_000.0  # no domain draws more: a larger step is a restart, not energy


class RaplSensor:
    """Energy counters of all readable RAPL domains."""

    name: ClassVar[str] = "rapl"

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self._context = context
        self._counters: list[_Counter] = []
        self._next_ns = context.clock.now_ns()
        self._periods = IrregularPeriods()

    def open(self) -> Sequence[Source]:
        """Open every domain once. Raises SensorUnavailable if none can be read."""
        context = self._context
        zones = scan(context.powercap_root, context.proc_root, context.clock)
        for zone in zones:
            if not zone.usable:
                self.absent.append(
                    Absence(
                        sensor=self.name,
                        what=f"RAPL {zone.device} {zone.key}",
                        reason=zone.problem,
                        remedy=zone.remedy,
                    )
                )
        usable = [zone for zone in zones if zone.usable]
        if not zones:
            raise SensorUnavailable(NO_TREE)
        if not usable:
            first = next((z for z in zones if z.remedy), zones[0])
            raise SensorUnavailable(first.problem, first.remedy)
        kinds = {zone.kind for zone in usable}
        counted = set(COUNTED) if "package" in kinds else {"psys"} if "psys" in kinds else {"dram"}
        now, vendor = context.clock.now_ns(), cpu_vendor(context.proc_root)
        sources = []
        for zone in usable:
            in_total = zone.kind in counted
            self._counters.append(_Counter(zone, now, PERIOD_NS if in_total else SLOW_NS))
            sources.append(_source(zone, vendor, in_total))
        self._next_ns = now
        return sources

    def read(self) -> Iterable[Reading]:
        """Read the domains that are due. Never raises; a failed read is a Gap."""
        now = self._context.clock.now_ns()
        readings: list[Reading] = []
        share = self._periods.next_share()  # one for all: those that are due together stay so
        for counter in self._counters:
            if counter.due_ns <= now + NS_PER_MS:
                counter.due_ns = max(now, counter.due_ns) + round(share * counter.period_ns)
                reading = counter.read(self._context)
                if reading is not None:
                    readings.append(reading)
        self._next_ns = min((c.due_ns for c in self._counters), default=now + SLOW_NS)
        return readings

    def next_read_ns(self) -> int:
        """When the first domain is due again."""
        return self._next_ns

    def close(self) -> None:
        """Close all files. Idempotent."""
        for counter in self._counters:
            counter.close()
        self._counters = []


class _Counter:
    """One open ``energy_uj``.

    Raw values are passed on as they are; a fall that is not a wraparound, or a step that
    no domain could draw, is a Gap, and what follows starts a new level.
    """

    def __init__(self, zone: Zone, now_ns: int, period_ns: int) -> None:
        self.source = f"rapl:{zone.key}"
        self.period_ns, self.due_ns = period_ns, now_ns
        self._zone = zone
        self._gaps = GapLog(self.source, now_ns)
        self._fd = os.open(zone.file, os.O_RDONLY | os.O_CLOEXEC)
        self._last: tuple[int, int] | None = None  # (time, raw)

    def read(self, context: SensorContext) -> Reading | None:
        """One read as a Sample, or as a Gap with the reason."""
        begin = context.clock.now_ns()
        try:
            if self._fd < 0:
                self._fd = os.open(self._zone.file, os.O_RDONLY | os.O_CLOEXEC)
            raw = read_uj(self._fd)
        except (OSError, ValueError) as error:
            self._forget()
            self.due_ns = begin + SLOW_NS  # a vanished file is asked for once a second
            return self._gaps.bad(begin, f"energy_uj cannot be read: {error}")
        end = context.clock.now_ns()
        before, self._last = self._last, (end, raw)
        if before is not None and not self._plausible(raw - before[1], end - before[0]):
            return Gap(self.source, before[0], end, RESTARTED)
        return self._gaps.good(end) or Sample(self.source, end, float(raw), end - begin)

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
        self._fd = -1

    def _forget(self) -> None:
        self.close()
        self._last = None

    def _plausible(self, step_uj: int, elapsed_ns: int) -> bool:
        if step_uj < 0:
            if self._zone.wrap_uj is None:
                return False
            step_uj += self._zone.wrap_uj
        return 0 <= step_uj * J_PER_UJ <= _MOST_W * (elapsed_ns / NS_PER_S + 0.05)


def _source(zone: Zone, vendor: str, in_total: bool) -> Source:
    note = "" if in_total else f"{zone.kind} energy lies inside what is counted"
    return Source(
        id=f"rapl:{zone.key}",
        device=zone.device,
        vendor=vendor,
        quantity="energy",
        unit="J",
        kind=Kind.COUNTER,
        provenance=Provenance.MEASURED,
        scale=J_PER_UJ,
        method="rapl",
        resolution_s=0.001,
        wrap_raw=float(zone.wrap_uj) if zone.wrap_uj else None,
        in_total=in_total,
        note=note,
    )
