"""Is that process, started then, on that boot, still there? Answers without signals."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path


@cache
def boot_id() -> str:
    """An id of this boot of this kernel; empty where /proc does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> int:
    """Identity of this pid namespace; 0 where unknown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot; None if it is not there.

    With the pid it names a process for ever: pids are used again, the pair is not.
    A zombie counts as gone: it will never write again.
    """
    fields = _stat_fields(pid)
    return None if fields is None or fields[0] in ("Z", "X") else int(fields[19])


def parent_of(pid: int) -> int | None:
    """The process that started another one, or has adopted it; None if it is not there."""
    fields = _stat_fields(pid)
    return None if fields is None else int(fields[1])


def _stat_fields(pid: int) -> list[str] | None:
    """Of ``/proc/<pid>/stat`` what follows the name, from the state on; None if it is not there."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat[stat.rindex(")") + 2 :].split()


def process_began_ns(pid: int) -> int:
    """When a process was started, on the monotonic clock, to 10 ms; 0 if that is not known."""
    ticks = start_ticks(pid)
    if ticks is None:
        return 0
    ago_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return max(0, time.monotonic_ns() - int(max(0.0, ago_s) * 1e9))


def is_alive(pid: int, ticks: int) -> bool:
    """True if the process that started at ``ticks`` still runs in this pid namespace."""
    return start_ticks(pid) == ticks


def owner_of(pid: int) -> int | None:
    """The uid that a process runs as; None if it is not there."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def cpu_seconds() -> float:
    """CPU time of this process so far, all threads."""
    times = os.times()
    return times.user + times.system


def process_state(pid: int) -> str:
    """The kernel's letter for a process (R, S, D, T, …); empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
