"""What a test left behind: threads, processes, rings, patches of torch, a lower priority."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

OURS = ("probe", "optimizers", "exporters", "dashboard", "tests")
SHARED_MEMORY = Path("/dev/shm")
# Helpers of the interpreter and of W&B's client, which outlive a test on purpose.
NOT_OURS = ("multiprocessing.resource_tracker", "wandb-core")
LEAVING_S = 40.0  # a recorder whose last figures are not scraped ends half a minute after its run


@dataclass(frozen=True)
class Before:
    """How the process was when the test began."""

    threads: frozenset[threading.Thread]
    patched: tuple[object, ...] | None
    newest_pid: int
    priority: int
    finders: tuple[object, ...]


def before() -> Before:
    return Before(
        frozenset(threading.enumerate()), _patched(), _newest_pid(), _priority(), _finders()
    )


def after(test: str, folder: Path, was: Before) -> list[str]:
    """What is left of the test with this node id and folder; leftover processes are killed."""
    left = [f"a thread: {thread}" for thread in _until_none(lambda: _threads(was.threads))]
    if _newest_pid() != was.newest_pid:  # else nobody on this machine has started anything
        for pid, command in _until_none(lambda: _processes(test)):
            left.append(f"process {pid}: {command}")
            os.kill(pid, signal.SIGKILL)
    for ring in _until_none(lambda: _rings(folder)):
        left.append(f"a ring: {ring}")
        ring.unlink(missing_ok=True)
    if was.patched is not None and _patched() != was.patched:
        left.append("a patch of torch")
    if _priority() != was.priority:
        left.append(f"priority {_priority()}, which every later test has, too")
    if _finders() != was.finders:
        left.append("a finder of modules")
    return left


def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def _finders() -> tuple[object, ...]:
    """What finds modules for imports and is ours."""
    return tuple(finder for finder in sys.meta_path if type(finder).__module__.startswith(OURS))


def _until_none(find):  # type: ignore[no-untyped-def]
    """What is still found when it had the time to leave."""
    end = time.monotonic() + LEAVING_S
    while (left := find()) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def _threads(before: frozenset[threading.Thread]) -> list[threading.Thread]:
    """New ones that run code of ours."""
    new = [thread for thread in threading.enumerate() if thread not in before]
    return [
        thread
        for thread in new
        if any(
            (getattr(code, "__module__", None) or "").startswith(OURS)
            for code in (type(thread), getattr(thread, "_target", None))
        )
    ]


def _newest_pid() -> int:
    """Of all processes and threads of the machine, the one that was started last."""
    return int(Path("/proc/loadavg").read_text().split()[-1])


def _processes(test: str) -> list[tuple[int, str]]:
    """Those that the body of the test started, at whatever remove: they inherited its name."""
    mark = f"PYTEST_CURRENT_TEST={test} (call)".encode()
    left = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            if mark in (place / "environ").read_bytes().split(b"\0"):
                command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if not any(name in command for name in NOT_OURS):
                    left.append((int(place.name), command[:200]))
        except OSError:  # it has just ended, or is somebody else's
            continue
    return left


def _rings(folder: Path) -> list[Path]:
    """Rings of runs below ``folder``."""
    runs = [meta.parent.name for meta in folder.rglob("run.json")]
    return [ring for run in runs for ring in SHARED_MEMORY.glob(f"phasewatt-*{run}*")]


def _patched() -> tuple[object, ...] | None:
    """What we patch in torch, as it is now; None without torch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "amp") or not hasattr(torch, "distributed"):
        return None
    return (
        torch.autograd._engine_run_backward,
        torch.amp.GradScaler.step,
        vars(torch.nn.Module).get("__call__"),
        torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
        getattr(torch.distributed, "all_reduce", None),
    )
