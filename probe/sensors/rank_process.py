"""CPU time and resident memory of each rank's own process, for its phases.

The kernel counts a process's CPU time in nanoseconds (``clock_gettime`` on the process's CPU clock,
see clock_getcpuclockid(3)), but that of a thread that runs only at its scheduler ticks, of 1 to
10 ms. Its resident set stands in ``/proc/<pid>/statm``. So even phases of milliseconds can be
separated over many steps. The reads are irregular: evenly spaced, they could fall into the same
phase of every step.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import ClassVar

from ..errors import SensorUnavailable
from ..model import Absence, DeviceKind, Kind, Provenance, Reading, Sample, Source
from ..units import NS_PER_MS, NS_PER_S
from ._schedule import IrregularPeriods
from .base import SensorContext

EVERY_NS, LATER_NS = 50 * NS_PER_MS, 200 * NS_PER_MS  # in the mean, in the first minute and later
_RANKS = 2  # that are read so often; of more, each is read less often: what is read is attributed
_FIRST_NS = 60 * NS_PER_S
# The coarse clock moves at the kernel's ticks.
_TICK_S = time.clock_getres(6) if sys.platform == "linux" else None  # CLOCK_MONOTONIC_COARSE
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class RankProcessSensor:
    """One counter of CPU seconds and one gauge of resident bytes per rank."""

    name: ClassVar[str] = "rank_process"
    reads_ranks: ClassVar[bool] = True

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self._clock, self._ranks = context.clock, dict(context.ranks)
        self._statm: dict[int, int] = {}  # open files by rank
        self._begin_ns = self._next_ns = context.clock.now_ns()
        self._periods = IrregularPeriods()

    def open(self) -> Sequence[Source]:
        """Raises SensorUnavailable where there are no ranks yet, or no such clocks."""
        if sys.platform != "linux":
            raise SensorUnavailable("CPU time and memory by phase are read on Linux only")
        for rank, pid in self._ranks.items():
            with suppress(OSError):
                time.clock_gettime_ns(_cpu_clock(pid))
                self._statm[rank] = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
        if not self._statm:
            raise SensorUnavailable("no rank has joined yet")
        return [source for rank in self._statm for source in self.sources(rank)]

    @staticmethod
    def sources(rank: int) -> list[Source]:
        """What is read of a rank: its CPU time, its resident memory."""

        def source(
            id_: str,
            quantity: str,
            unit: str,
            kind: Kind,
            scale: float,
            method: str,
            resolution_s: float | None = None,
        ) -> Source:
            return Source(
                id=f"rank{rank}:{id_}",
                device=f"rank{rank}",
                device_kind=DeviceKind.RANK,
                index=rank,
                quantity=quantity,
                unit=unit,
                kind=kind,
                provenance=Provenance.MEASURED,
                scale=scale,
                method=method,
                resolution_s=resolution_s,
            )

        return [
            source(
                "cpu_time", "cpu_time", "s", Kind.COUNTER, 1 / NS_PER_S, "clock_gettime", _TICK_S
            ),
            source("memory", "memory_used", "B", Kind.GAUGE, 1.0, "statm"),
        ]

    def read(self) -> Iterable[Reading]:
        """Both of every rank; one whose process has ended is not read any more."""
        readings: list[Reading] = []
        for rank, file in list(self._statm.items()):
            try:
                begin_ns = self._clock.now_ns()
                cpu_ns = time.clock_gettime_ns(_cpu_clock(self._ranks[rank]))
                end_ns = self._clock.now_ns()
                pages = int(os.pread(file, 128, 0).split()[1])
                if not pages:  # it has ended, and its parent has not looked yet
                    raise ProcessLookupError
            except (OSError, IndexError, ValueError):
                os.close(self._statm.pop(rank))
                continue
            readings.append(Sample(f"rank{rank}:cpu_time", end_ns, cpu_ns, end_ns - begin_ns))
            readings.append(Sample(f"rank{rank}:memory", self._clock.now_ns(), pages * _PAGE))
        now_ns = self._clock.now_ns()
        every_ns = EVERY_NS if now_ns - self._begin_ns < _FIRST_NS else LATER_NS
        self._next_ns = now_ns + round(every_ns * self._periods.next_share())
        return readings

    def next_read_ns(self) -> int:
        """Some 20 times a second in the first minute, then 5 times; less often with many ranks."""
        return self._next_ns

    def close(self) -> None:
        """Close the files. Idempotent."""
        for file in self._statm.values():
            os.close(file)
        self._statm = {}


def _cpu_clock(pid: int) -> int:
    """The clock of a process's CPU time, as the kernel numbers it (CPUCLOCK_SCHED)."""
    return (~pid << 3) | 2
