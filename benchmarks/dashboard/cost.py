"""What looking costs the training: so many clients replay what one tab of the dashboard asks.

Used by dashboard_speed.py. The training has a core of its own, all else the other one; blocks
with and without clients by turns, and two without any (A/A).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import ROOT, median_and_bound

sys.path.insert(0, str(ROOT))

from probe.store.layout import RUN_FILE
from tests.e2e.conftest import end, serve

SLOWER, CLIENTS, TICK_S = 0.005, 20, 0.5
BLOCK_S, BLOCKS, SETTLES_S = 0.5, 100, 0.3
Times = tuple[float, float]


@contextlib.contextmanager
def server(directory: Path) -> Iterator[tuple[str, int]]:
    process, url = serve(directory)
    try:
        yield url, process.pid
    finally:
        end(process)


class Clients:
    """So many tabs' callbacks over plain HTTP, twice a second each, while :attr:`on`."""

    def __init__(self, url: str, run_id: str, number: int):
        self.on, self.asked, self.failed = threading.Event(), 0, 0
        self._stop, self._url = threading.Event(), url
        known = json.loads(self._get("_dash-dependencies"))
        wanted = ("run-head", '"view":"power"', '"view":"phases"')
        self._tick = [
            payload(one, run_id)
            for one in known
            if one["clientside_function"] is None
            and any(name in one["output"] for name in wanted)
            and any(part["id"] in ("tick", "seen") for part in one["inputs"])
        ]
        assert len(self._tick) == len(wanted)
        self._threads = [
            threading.Thread(target=self._tab, args=(i,), daemon=True) for i in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
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


def payload(one: dict[str, Any], run_id: str) -> dict[str, Any]:
    from tests.contract.test_dashboard_access import payload as made

    body = made(one, None)
    for part in body["inputs"]:
        if part["id"] == "run":
            part["value"] = run_id
    body["changedPropIds"] = [
        next(f"{p['id']}.{p['property']}" for p in body["inputs"] if p["id"] in ("tick", "seen"))
    ]
    return body


# Trains on the first core, which nobody else may use. A line on stdin is a block; what is said of
# it: how long a step lasted, as the tenth of all steps that was quickest, and the mean. What the
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


def cost(folder: Path) -> dict[str, Any]:
    """The training on core 0; its recorder, the server and the clients on core 1."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {1})
    training = subprocess.Popen(
        [sys.executable, "-c", TRAINER],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PROBE_DIR": str(folder / "runs"), "OMP_NUM_THREADS": "1"},
    )
    assert training.stdin is not None and training.stdout is not None
    run = Path(training.stdout.readline().strip())
    time.sleep(2)
    recorder = json.loads((run / RUN_FILE).read_text())["recorder"]["pid"]
    for task in Path(f"/proc/{recorder}/task").iterdir():
        os.sched_setaffinity(int(task.name), {1})

    def block() -> Times:
        training.stdin.write(f"{BLOCK_S}\n")
        training.stdin.flush()
        quick, mean = map(float, training.stdout.readline().split())
        return quick, mean

    slower: dict[str, list[Times]] = {"looked at": [], "alone": []}
    with server(folder / "runs") as (url, pid):
        os.sched_setaffinity(pid, {1})
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {1})
        clients = Clients(url, run.name, CLIENTS)
        for _ in range(3):
            block()
        # Three blocks in a random order, one of them looked at; the two others are the A/A.
        for _ in range(BLOCKS):
            order = ["looked at", "alone", "alone"]
            random.shuffle(order)
            took: dict[str, list[Times]] = {}
            for kind in order:
                (clients.on.set if kind == "looked at" else clients.on.clear)()
                time.sleep(SETTLES_S)
                took.setdefault(kind, []).append(block())
            clients.on.clear()
            (seen,), (one, other) = took["looked at"], took["alone"]
            slower["looked at"].append(
                (2 * seen[0] / (one[0] + other[0]) - 1, 2 * seen[1] / (one[1] + other[1]) - 1)
            )
            slower["alone"].append((one[0] / other[0] - 1, one[1] / other[1] - 1))
        asked, failed = clients.asked, clients.failed
        clients.close()
    training.stdin.close()
    training.wait(timeout=60)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    found = {kind: median_and_bound([pair[0] for pair in pairs]) for kind, pairs in slower.items()}
    mean = {kind: median_and_bound([pair[1] for pair in pairs]) for kind, pairs in slower.items()}
    for kind, (median, bound) in found.items():
        average, most = mean[kind]
        print(
            f"cost: {kind}: a quick step {median:+.2%}, upper 95 % bound {bound:+.2%}; the mean "
            f"{average:+.2%}, upper {most:+.2%}",
            flush=True,
        )
    per_s = asked / (BLOCKS * (BLOCK_S + SETTLES_S))
    print(f"cost: {CLIENTS} clients, {per_s:.0f} answers a second, {failed} failed", flush=True)
    if found["alone"][1] > SLOWER:
        print("A/A is above the bar: this machine does not decide it now")
    return {
        "clients": CLIENTS,
        "answers_per_s": per_s,
        "failed": failed,
        "slower": found,
        "slower_mean": mean,
        "held": found["looked at"][1] <= SLOWER and not failed,
    }
