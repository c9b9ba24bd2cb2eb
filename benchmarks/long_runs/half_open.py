"""What 500 half-open connections to each server do to a run, and to a client that asks properly.

    python -m benchmarks.long_runs.half_open [--seconds 60] [--connections 500]

A training serves Prometheus and has a dashboard. For a minute so many connections to each of the
two send half a request, and are opened anew where the server closes them. Meanwhile a client asks
both once a second. Bars: every phase is recorded, and every answer comes within a second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness.results import save
from tests.fakes import processes
from tests.fakes.half_open import HALF, answer
from tests.fakes.nvml import NvmlRig
from tests.fakes.phase_ends import SCRIPT, recorded

ANSWERED_S, RECORDED = 1.0, 1.0
START_S, LAST_S = 120.0, 5.0  # until both servers answer at most, and of training afterwards
HALVES = (HALF, b"", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n\r\nx")


class HalfOpen:
    """Holds so many connections to one port half open; counts how often it opened one."""

    def __init__(self, port: int, number: int):
        self.opened = 0
        self._port, self._number = port, number
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def __enter__(self) -> HalfOpen:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _hold(self) -> None:
        with contextlib.ExitStack() as all_, selectors.DefaultSelector() as selector:
            while not self._ended.is_set():
                while len(selector.get_map()) < self._number and not self._ended.is_set():
                    with contextlib.suppress(OSError):
                        selector.register(self._open(all_), selectors.EVENT_READ)
                for key, _ in selector.select(0.2):
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    with contextlib.suppress(OSError):
                        if connection.recv(4096):
                            continue
                    selector.unregister(connection)
                    connection.close()

    def _open(self, all_: contextlib.ExitStack) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=5.0)
        all_.callback(connection.close)
        connection.sendall(HALVES[self.opened % len(HALVES)])
        self.opened += 1
        return connection


@contextlib.contextmanager
def training(
    place: Path, seconds: float
) -> Iterator[tuple[subprocess.Popen[str], Path, list[str]]]:
    """(a training, its run, what can be asked for: metrics and a page's table)."""
    metrics, pages = processes.free_port(), processes.free_port()
    rig = NvmlRig(place, gpus=1, power_w=250.0, period_s=0.1)
    serves = {"PROBE_PROMETHEUS": str(metrics), "PROBE_DASHBOARD": str(pages)}
    process = processes.start(
        SCRIPT, place, str(seconds), extra={**rig.env(), **serves}, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    try:
        processes.await_recorder(run)
        yield (
            process,
            run,
            [
                f"http://127.0.0.1:{metrics}/metrics",
                f"http://127.0.0.1:{pages}/table/run/{run.name}/phases",
            ],
        )
    finally:
        with contextlib.suppress(OSError, ValueError, KeyError):  # it outlives the training
            served = json.loads((run.parent / ".dashboard.json").read_text())
            os.kill(served["pid"], signal.SIGTERM)


def asked(url: str) -> float:
    """Seconds until the whole answer was there; infinite if it is not the right one."""
    begin = time.monotonic()
    try:
        status, text = answer(url)
    except OSError:
        return float("inf")
    return time.monotonic() - begin if status == 200 and "work" in text else float("inf")


def measured(seconds: float, number: int) -> dict[str, object]:
    """What the bars are about."""
    with (
        tempfile.TemporaryDirectory() as folder,
        training(Path(folder), seconds + LAST_S + 25.0) as (process, run, urls),
    ):
        begin = time.monotonic()
        while max(asked(url) for url in urls) == float("inf"):
            if time.monotonic() > begin + START_S:
                sys.exit("the servers do not answer, without any other client")
            time.sleep(0.5)
        ports = [int(url.split(":")[2].split("/")[0]) for url in urls]
        times: list[list[float]] = [[], []]
        with HalfOpen(ports[0], number) as first, HalfOpen(ports[1], number) as second:
            time.sleep(2.0)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for took, url in zip(times, urls, strict=True):
                    took.append(asked(url))
                time.sleep(1.0)
        output, _ = process.communicate(timeout=processes.HUNG_S)
        processes.wait_until(lambda: processes.sealed(run))
        ends = np.array(json.loads(output.splitlines()[-1]))
        shown = processes.probe(Path(folder), "report", str(run), "--format", "json")
        report = json.loads(shown.stdout)
        return {
            "connections": number,
            "seconds": seconds,
            "opened": [first.opened, second.opened],
            "answers": [len(took) for took in times],
            "worst_answer_s": [max(took) for took in times],
            "recorded": float(recorded(run, ends).mean()),
            "edges_lost": report["gaps"]["edges_lost"],
            "status": report["run"]["status"],
        }


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--connections", type=int, default=500, help="to each server")
    args = options.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    result = measured(args.seconds, args.connections)
    worst = result["worst_answer_s"]
    assert isinstance(worst, list)
    for key, value in result.items():
        print(f"{key:16}", *(value if isinstance(value, list) else [value]))
    ok = max(worst) <= ANSWERED_S and result["recorded"] == RECORDED and not result["edges_lost"]
    print("bars held" if ok else "bars MISSED")
    save("long_runs/half_open", result)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
