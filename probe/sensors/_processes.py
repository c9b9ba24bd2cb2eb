"""The job's processes: the ranks and everything they start, found and summed cheaply.

Listing all processes of a large node costs tens of milliseconds, so a process is asked
for its parent once, when it first appears. One that was ours stays ours when its parent
dies. CPU seconds count every process once: a child that ended lives on in its parent's
time of waited-for children.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil


@dataclass(frozen=True, slots=True)
class Usage:
    """All living processes of the job at one instant."""

    cpu_s: float  # since the first reading, plus what the ranks had used before; never falls
    rss_bytes: int  # pages shared by several processes count once for each
    processes: int


class ProcessTree:
    """The processes ``roots`` with all their descendants, without this one."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = frozenset(roots)
        self._mine: dict[int, Any] = {}  # pid → psutil.Process
        self._others: set[int] = set()
        self._seen: dict[int, tuple[float, float]] = {}  # pid → own, waited-for children's time
        # What ended children had used shows up in their parent's time of children, at once or
        # at the next reading: it must not count again.
        self._counted: deque[float] = deque([0.0], maxlen=2)
        self._cpu_s = 0.0

    def usage(self) -> Usage | None:
        """None when none of the processes is left. Raises psutil.Error or OSError rarely."""
        self._find()
        own_grown = waited_grown = ended = 0.0
        rss = 0
        now: dict[int, tuple[float, float]] = {}
        for pid, process in list(self._mine.items()):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    rss += process.memory_info().rss
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                del self._mine[pid]
                continue
            own, waited = times.user + times.system, times.children_user + times.children_system
            before = self._seen.get(pid)
            own_grown += own - (before[0] if before else 0.0)
            if before:
                waited_grown += waited - before[1]
            else:  # its children of earlier times were never counted
                own_grown += waited
            now[pid] = (own, waited)
        for pid, (own, waited) in self._seen.items():
            if pid not in now:
                ended += own + waited
        self._counted.append(ended)
        again = min(waited_grown, sum(self._counted))
        self._pay(again)
        self._cpu_s += max(0.0, own_grown) + max(0.0, waited_grown - again)
        self._seen = now
        return Usage(self._cpu_s, rss, len(now)) if now else None

    def _pay(self, seconds: float) -> None:
        for position, owed in enumerate(self._counted):
            paid = min(owed, max(0.0, seconds))
            self._counted[position] = owed - paid
            seconds -= paid

    def _find(self) -> None:
        living = set(psutil.pids())
        self._others &= living
        fresh = sorted(living - self._others - self._mine.keys())
        parents: dict[int, int] = {}
        for pid in fresh:
            try:
                process = psutil.Process(pid)
                parents[pid] = process.ppid()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if pid in self._roots:
                self._mine[pid] = process
        me = os.getpid()
        added = True
        while added:  # a grandchild may have a lower pid than its parent
            added = False
            for pid, parent in parents.items():
                if pid not in self._mine and parent in self._mine and pid != me:
                    self._mine[pid] = psutil.Process(pid)
                    added = True
        self._others |= parents.keys() - self._mine.keys()
