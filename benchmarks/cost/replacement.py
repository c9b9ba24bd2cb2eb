"""How long the training thread is held up when a dead recorder is replaced.

    python -m benchmarks.cost.replacement

In a process of 1 GiB: ms of starting a recorder at a step, quiet and beside two busy processes a
core; the old way (which waits until the new process runs) in turns with the new one, and beside
them the same thread's wait for nothing: a loop as long as the new way on a quiet machine.

Bar: ≤ 2 ms, the median beside busy processes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.harness.results import save
from probe.recorder.spawn import claim, spawn, spawn_aside

TIMES, PAUSE_S, BUSY_PER_CORE, BYTES = 40, 0.15, 2, 1 << 30
MOST_MS = 2.0
BUSY = "while True: pass"


def took_ms(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def loop(ms: float) -> None:
    """Compute for so long, as a quiet machine counts it."""
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        pass


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes compute beside this one."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def measured(usual_ms: float) -> dict[str, list[float]]:
    """Milliseconds of each way, in turns; each recorder finds no run and ends at once."""
    times: dict[str, list[float]] = {"aside": [], "waiting": [], "nothing": []}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        for epoch in range(1, TIMES + 1):
            claim(run, epoch)
            times["aside"].append(took_ms(lambda: spawn_aside(run, epoch)))  # noqa: B023
            time.sleep(PAUSE_S)
            children: list[subprocess.Popen[bytes]] = []
            times["waiting"].append(took_ms(lambda: children.append(spawn(run, epoch))))  # noqa: B023
            children[0].wait()
            time.sleep(PAUSE_S)
            times["nothing"].append(took_ms(lambda: loop(usual_ms)))
    return times


def main() -> None:
    memory = np.ones(BYTES // 8)  # a fork would copy its page tables
    quiet = measured(0.2)
    usual_ms = statistics.median(quiet["aside"])
    with busy(BUSY_PER_CORE * (os.cpu_count() or 1)):
        loaded = measured(usual_ms)
    result: dict[str, dict[str, float]] = {}
    print(f"{'ms':24} {'median':>8} {'p95':>8} {'worst':>8}")
    for place, times in (("quiet", quiet), ("busy", loaded)):
        for way, taken in times.items():
            shown = [statistics.median(taken), float(np.quantile(taken, 0.95)), max(taken)]
            print(f"{place + ', ' + way:24} " + " ".join(f"{value:8.2f}" for value in shown))
            result[f"{place}, {way}"] = dict(zip(("median", "p95", "worst"), shown, strict=True))
    save("cost/replacement", {"ms": result, "bytes": memory.nbytes})
    sys.exit(result["busy, aside"]["median"] > MOST_MS)


if __name__ == "__main__":
    main()
