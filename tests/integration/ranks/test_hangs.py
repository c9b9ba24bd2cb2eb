"""A training that hangs is named: rank, phase, since when, where. It is not changed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from probe.store import files
from tests.fakes import processes

pytestmark = pytest.mark.paced

# Each step takes 1/8 from a weight of 1: exact in binary. What the ranks add up is 1 + 2.
RANKS = """
import os, sys, time
import torch, torch.distributed as dist
import probe

def wait_for(path):
    until = time.monotonic() + 300
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.02)

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(1, 1, bias=False)
with torch.no_grad():
    model.weight.fill_(1.0)
optimizer = torch.optim.SGD(model.parameters(), 0.125)
with probe.watch(model, optimizer, name="hangs", hang_after=0.05) as run:
    for step in range(8):
        optimizer.zero_grad()
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        if step == 3:
            if rank == 0:
                with run.phase("late"):
                    wait_for(sys.argv[1])
            seen = torch.tensor([rank + 1.0])
            dist.all_reduce(seen)
    time.sleep(0.2)
line = f"rank {rank} {model.weight.item()} {float(seen)}\\n"
os.write(1, line.encode())  # at once: both ranks write into one pipe
dist.destroy_process_group()
"""

# One step may be long. A fourth argument is a file that ends it.
STEPS = """
import os, sys, time
import torch, probe

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with probe.watch(model, optimizer, name="steps", hang_after=float(sys.argv[1])) as run:
    print(run.path, flush=True)
    for step in range(int(sys.argv[3])):
        if os.path.exists(sys.argv[-1]):
            break
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        time.sleep(float(sys.argv[2]) if step == 2 else 0.02)
print("trained", flush=True)
"""


def warnings_of(run: Path) -> list[str]:
    fields = files.read_fields(run / "run.json") or {}
    return [line for line in fields.get("warnings") or () if line.startswith("no step for")]


def test_a_rank_that_waits_in_a_collective_is_named_and_goes_on(tmp_path: Path) -> None:
    go, script = tmp_path / "go", processes.write(tmp_path / "train.py", RANKS)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    job = processes.closed_after_test(
        subprocess.Popen(
            [*launcher, "--nproc-per-node", "2", str(script), str(go)],
            stdout=subprocess.PIPE,
            text=True,
            env=processes.environment(tmp_path / "runs"),
            cwd=tmp_path,
        )
    )
    try:
        runs = tmp_path / "runs"

        def named() -> bool:
            lines = [line for path in runs.glob("*/run.json") for line in warnings_of(path.parent)]
            return len(lines) == 2 and all("train.py" in line for line in lines)

        assert processes.wait_until(named), "the hang was not named"
        run = processes.only_run(tmp_path)
        during = {line.split(": ")[1].split()[1]: line for line in warnings_of(run)}
        shown = processes.probe(tmp_path, "report", "latest").stdout
        go.touch()
        output, _ = job.communicate(timeout=processes.HUNG_S)
    finally:
        go.touch()
        job.kill()
        job.wait()
    assert job.returncode == 0
    lines = {line.split()[1]: line.split()[2:] for line in output.splitlines() if "rank" in line}
    assert lines == {"0": ["0.0", "3.0"], "1": ["0.0", "3.0"]}
    reduces = RANKS.splitlines().index("            dist.all_reduce(seen)") + 1
    waits = RANKS.splitlines().index("        time.sleep(0.02)") + 1
    assert "rank 0 has been in late since" in during["0"]
    assert f"at train.py:{waits} in wait_for ({run.name}/hang-rank0.txt)" in during["0"]
    assert re.search(
        r"no step for 3(\.00?)? s: rank 1 has been in communication since \d{4}-\d\d-\d\d \d\d:",
        during["1"],
    ), during
    assert f"at train.py:{reduces} in all_reduce ({run.name}/hang-rank1.txt)" in during["1"]
    assert "rank 1 has been in communication" in " ".join(shown.split())
    assert f'train.py", line {reduces} in <module>' in (run / "hang-rank1.txt").read_text()
    assert processes.status_at_end(run) == "finished"
    after = warnings_of(run)
    assert len(after) == 2 and all("; it went on at " in line for line in after), after


@pytest.mark.full
def test_a_long_step_below_the_limit_is_no_hang(tmp_path: Path) -> None:
    done = processes.run(STEPS, tmp_path, "0.1", "1.6", "10")
    assert done.returncode == 0, done.stderr
    run = processes.only_run(tmp_path)
    assert processes.status_at_end(run) == "finished"
    assert warnings_of(run) == [] and not list(run.glob("hang-*"))
    kept = json.loads((run / "run.json").read_text())
    assert "hang" not in kept


@pytest.mark.full
def test_a_stopped_process_is_named_and_lives_on(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    training = processes.start(STEPS, tmp_path, "0.05", "0.02", "1000000", str(stop))
    try:
        assert training.stdout is not None
        run = Path(training.stdout.readline().strip())
        processes.await_recorder(run)
        time.sleep(0.3)
        training.send_signal(signal.SIGSTOP)
        assert processes.wait_until(lambda: bool(warnings_of(run)))
        assert "stopped by a signal" in warnings_of(run)[0]
        training.send_signal(signal.SIGCONT)
        assert processes.wait_until(lambda: "; it went on at " in warnings_of(run)[0])
        stop.touch()
        output, _ = training.communicate(timeout=processes.HUNG_S)
    finally:
        training.kill()
        training.wait()
    assert training.returncode == 0 and "trained" in output
    assert processes.status_at_end(run) == "finished"
    assert len(warnings_of(run)) == 1 and "; it went on at " in warnings_of(run)[0]


def test_a_limit_that_is_no_number_is_refused_in_a_line(tmp_path: Path) -> None:
    extra = {"PROBE_HANG_AFTER": "soon"}
    done = processes.run("import probe\nprobe.start()\n", tmp_path, extra=extra)
    assert done.returncode == 1
    line = "hang_after='soon' is no number of minutes: write for example 5"
    assert done.stderr.splitlines()[-1].endswith(line)
