"""What looking at a run costs its training (share of a step): clients replay what a tab asks.

    python -m benchmarks.dashboard.speed --only cost

The training has one core, everything else the other one; blocks with and without clients by turns,
and two without any (A/A).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.harness.turns import by_turns, excess, median_and_bound
from tests.contract import test_dashboard_access
from tests.fakes import processes

from .browser import server

SLOWER, CLIENTS, TICK_S = 0.005, 20, 0.5
BLOCK_S, BLOCKS, SETTLES_S = 0.5, 100, 0.3


class Clients:
    """So many tabs' callbacks over plain HTTP, twice a second each, while :attr:`on`."""

    def __init__(self, url: str, run_id: str, number: int):
        self.on, self.asked, self.failed = threading.Event(), 0, 0
        self._stop, self._url = threading.Event(), url
        callbacks = json.loads(self._get("_dash-dependencies"))
        wanted = ("run-head", '"view":"power"', '"view":"phases"')
        self._tick = [
            payload(callback, run_id)
            for callback in callbacks
            if callback["clientside_function"] is None
            and any(name in callback["output"] for name in wanted)
            and any(part["id"] in ("tick", "seen") for part in callback["inputs"])
        ]
        assert len(self._tick) == len(wanted)
        self._threads = [
            threading.Thread(target=self._tab, args=(i,), daemon=True) for i in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End them all."""
        self._stop.set()
        self.on.set()
        for thread in self._threads:
            thread.join(5)

    def _tab(self, number: int) -> None:
        time.sleep(TICK_S * random.random())
        seen: Any = None
        while not self._stop.is_set():
            self.on.wait()
            began = time.monotonic()
            follow, charts = self._tick[0], self._tick[1:]
            follow["state"][0]["value"] = seen
            answer = self._post(follow)
            if answer:  # something new: the tab draws
                seen = answer["response"].get("seen", {}).get("data", seen)
                for chart in charts:
                    self._post(chart)
            time.sleep(max(0.0, TICK_S - (time.monotonic() - began)))

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(self._url + path, timeout=20) as answer:
            return str(answer.read().decode())

    def _post(self, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self._url + "_dash-update-component",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                self.asked += 1
                text = answer.read()
                return json.loads(text) if text else None
        except OSError:
            self.failed += 1
            return None


def payload(callback: dict[str, Any], run_id: str) -> dict[str, Any]:
    """What a tab that shows this run sends for a callback at a tick."""
    body = test_dashboard_access.payload(callback, None)
    for part in body["inputs"]:
        if part["id"] == "run":
            part["value"] = run_id
    body["changedPropIds"] = [
        next(f"{p['id']}.{p['property']}" for p in body["inputs"] if p["id"] in ("tick", "seen"))
    ]
    return body


# Trains on the first core, which no other process may use. A line on stdin is a block. It answers
# how long a step lasted, as the tenth of all steps that was quickest, and the mean. What the
# clients take of caches and memory every step feels; what other guests of the machine take comes
# and goes, and only makes steps longer.
TRAINER = """
import os, sys, time
os.sched_setaffinity(0, {0})
import torch
torch.set_num_threads(1)
import probe
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.randn(128, 256)
with probe.watch(model, optimizer, name="pinned") as run:
    print(run.path, flush=True)
    for line in sys.stdin:
        end = time.perf_counter() + float(line)
        times = [time.perf_counter()]
        while times[-1] < end:
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
            times.append(time.perf_counter())
        steps = sorted(b - a for a, b in zip(times, times[1:]))
        print(steps[len(steps) // 10], sum(steps) / len(steps), flush=True)
"""


def pin_all(pid: int) -> None:
    """Bind all threads of a process to core 1."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {1})


def bounds(
    times: dict[str, list[tuple[float, float]]], column: int
) -> dict[str, tuple[float, float]]:
    """(median, upper bound) of what looking costs, and alone (A/A), by one column of the times."""
    shares = excess({name: [pair[column] for pair in pairs] for name, pairs in times.items()})
    return {
        "looked at": median_and_bound(shares["looked at"]),
        "alone": median_and_bound(shares["A/A"]),
    }


def cost(folder: Path) -> dict[str, Any]:
    """The training on core 0; its recorder, the server and the clients on core 1."""
    folder.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {1})
    training = processes.start(TRAINER, folder, stdin=subprocess.PIPE)
    assert training.stdin is not None and training.stdout is not None
    run = Path(training.stdout.readline().strip())
    time.sleep(2)
    pin_all(processes.await_recorder(run))

    def block() -> tuple[float, float]:
        """Seconds of a quick step and of the mean one."""
        training.stdin.write(f"{BLOCK_S}\n")
        training.stdin.flush()
        quick, mean = map(float, training.stdout.readline().split())
        return quick, mean

    with server(folder / "runs") as (url, pid):
        pin_all(pid)
        clients = Clients(url, run.name, CLIENTS)

        def alone() -> tuple[float, float]:
            clients.on.clear()
            time.sleep(SETTLES_S)
            return block()

        def looked_at() -> tuple[float, float]:
            clients.on.set()
            time.sleep(SETTLES_S)
            seconds = block()
            clients.on.clear()
            return seconds

        for _ in range(3):
            block()
        times = by_turns({"bare": alone, "A/A": alone, "looked at": looked_at}, BLOCKS)
        asked, failed = clients.asked, clients.failed
        clients.close()
    training.stdin.close()
    training.wait(timeout=60)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    slower, slower_mean = (bounds(times, column) for column in (0, 1))
    for kind, (median, bound) in slower.items():
        average, most = slower_mean[kind]
        print(
            f"cost: {kind}: a quick step {median:+.2%}, upper 95 % bound {bound:+.2%}; the mean "
            f"{average:+.2%}, upper {most:+.2%}",
            flush=True,
        )
    per_s = asked / (BLOCKS * (BLOCK_S + SETTLES_S))
    print(f"cost: {CLIENTS} clients, {per_s:.0f} answers a second, {failed} failed", flush=True)
    if slower["alone"][1] > SLOWER:
        print("A/A is above the bar: this machine does not decide it now")
    return {
        "clients": CLIENTS,
        "answers_per_s": per_s,
        "failed": failed,
        "slower": slower,
        "slower_mean": slower_mean,
        "held": slower["looked at"][1] <= SLOWER and not failed,
    }
