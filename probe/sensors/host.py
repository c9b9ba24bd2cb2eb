"""The machine and the job's processes as the operating system sees them, once a second."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from ..errors import SensorUnavailable
from ..model import Absence, Kind, Provenance, Reading, Source
from ..units import NS_PER_S
from ._processes import LIST_EVERY
from ._schedule import GRID_NS, on_grid
from .base import SensorContext, read_each

PERIOD_NS = NS_PER_S


class HostSensor:
    """CPU load and memory of the machine; CPU time and memory of the job's process tree."""

    name: ClassVar[str] = "host"

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self._context = context
        self._psutil: Any = None
        self._tree: dict[int, Any] = {}
        self._seen: dict[int, tuple[float, float]] = {}  # own CPU seconds, and its children's
        self._gone_s = self._lost_s = 0.0
        self._reads = 0
        self._next_ns = context.clock.now_ns()

    def open(self) -> Sequence[Source]:
        """Raises SensorUnavailable if psutil cannot be imported."""
        try:
            import psutil
        except ImportError as error:
            raise SensorUnavailable(str(error), "pip install psutil") from None
        self._psutil = psutil
        psutil.cpu_percent()  # the first call only sets the starting point
        self._next_ns = self._context.clock.now_ns() + NS_PER_S // 10

        def source(id_: str, device: str, quantity: str, unit: str, kind: Kind) -> Source:
            return Source(
                id=id_,
                device=device,
                quantity=quantity,
                unit=unit,
                kind=kind,
                provenance=Provenance.MEASURED,
                method="psutil",
                resolution_s=PERIOD_NS / NS_PER_S,
            )

        return [
            source("host:cpu_utilization", "host", "utilization", "ratio", Kind.GAUGE),
            source("host:memory_used", "host", "memory_used", "B", Kind.GAUGE),
            source("process:cpu_seconds", "process", "cpu_time", "s", Kind.COUNTER),
            source("process:rss", "process", "memory_used", "B", Kind.GAUGE),
        ]

    def read(self) -> Iterable[Reading]:
        """One round. Never raises; a process that vanished is not a failure."""
        if self._psutil is None:
            return []
        begin = self._context.clock.now_ns()
        calls = {
            "host:cpu_utilization": lambda: self._psutil.cpu_percent() / 100,
            "host:memory_used": self._memory_used,
            "process:cpu_seconds": self._cpu_seconds,
            "process:rss": self._rss,
        }
        readings = read_each(calls, self._context.clock, begin)
        self._next_ns = on_grid(begin + PERIOD_NS - GRID_NS // 2)
        return readings

    def next_read_ns(self) -> int:
        """Once a second."""
        return self._next_ns

    def close(self) -> None:
        """Nothing is held. Idempotent."""
        self._psutil = None
        self._tree = {}

    def _memory_used(self) -> float:
        memory = self._psutil.virtual_memory()
        return float(memory.total - memory.available)

    def _cpu_seconds(self) -> float:
        """Own time of all that live, and of all that they have waited for (cutime, cstime).

        So a child counts though it was never seen alive. The time of a process that goes
        moves to the process that waits for it, or is kept here if none does. It may be seen to
        move one read later, since processes are read one after another.
        """
        alive = gone = waited = 0.0
        if self._reads % LIST_EVERY == 0:
            gone = self._find_processes()
        self._reads += 1
        for pid, process in list(self._tree.items()):
            try:
                times = process.cpu_times()
            except self._psutil.Error:
                del self._tree[pid]
                gone += sum(self._seen.pop(pid, (0.0, 0.0)))
                continue
            own, of_children = times.user + times.system, _of_children(times)
            waited += of_children - self._seen.get(pid, (own, of_children))[1]
            self._seen[pid] = own, of_children
            alive += own + of_children
        self._lost_s += max(0.0, self._gone_s - waited)
        self._gone_s = max(0.0, gone - max(0.0, waited - self._gone_s))
        return alive + self._gone_s + self._lost_s

    def _rss(self) -> float:
        total = 0
        for process in self._tree.values():
            try:
                total += process.memory_info().rss
            except self._psutil.Error:
                continue
        return float(total)

    def _find_processes(self) -> float:
        """Look for new processes; returns the CPU seconds of those that have ended."""
        psutil = self._psutil
        gone = 0.0
        for pid, process in list(self._tree.items()):
            if not process.is_running():  # or its number belongs to another process now
                del self._tree[pid]
                gone += sum(self._seen.pop(pid, (0.0, 0.0)))
        for pid in self._context.pids:
            try:
                parent = self._tree.get(pid) or psutil.Process(pid)
                for process in [parent, *parent.children(recursive=True)]:
                    self._tree.setdefault(process.pid, process)
            except psutil.Error:
                continue
        return gone


def _of_children(times: Any) -> float:
    return float(times.children_user + times.children_system)
