"""Several trainings below one `probe run`: a group, in which every step and joule counts once."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import processes
from tests.fakes.nvml import NvmlRig

pytestmark = pytest.mark.paced

CORE = """
import time, torch
def train(steps, rest_s=0.005, model=None):
    model = model or torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).mean().backward()
        optimizer.step()
        time.sleep(rest_s)
"""

TRAIN = """
import sys
from core import train
train(int(sys.argv[1]), float(sys.argv[2]))
"""

SWEEP = """
import subprocess, sys
together = sys.argv[1] == "together"
begun = []
for steps in sys.argv[3:]:
    child = subprocess.Popen([sys.executable, "train.py", steps, sys.argv[2]])
    begun.append(child)
    if not together:
        child.wait()
sys.exit(max(child.wait() for child in begun))
"""


def ran(tmp_path: Path, *command: str, rig: NvmlRig | None = None, code: int = 0) -> dict[str, Any]:
    """Run a command below `probe run`; its report."""
    processes.write(tmp_path / "core.py", CORE)
    processes.write(tmp_path / "train.py", TRAIN)
    extra = rig.env() if rig is not None else {}
    done = processes.probe(tmp_path, "run", "--quiet", "--", sys.executable, *command, extra=extra)
    assert done.returncode == code, done.stderr
    assert not [line for line in done.stderr.splitlines() if line.startswith("phasewatt")], done
    (run,) = [p.parent for p in (tmp_path / "runs").glob("*/run.json")]
    assert processes.wait_until(lambda: processes.sealed(run))
    return report(tmp_path, "latest")


def report(tmp_path: Path, reference: str) -> dict[str, Any]:
    out = processes.probe(tmp_path, "report", reference, "--format", "json")
    assert out.returncode == 0, out.stderr
    value: dict[str, Any] = json.loads(out.stdout)
    return value


def swept(tmp_path: Path, how: str, *steps: int, rest_s: float = 0.02) -> dict[str, Any]:
    processes.write(tmp_path / "sweep.py", SWEEP)
    rig = NvmlRig(tmp_path, gpus=1, power_w=250.0, period_s=0.1)
    return ran(tmp_path, "sweep.py", how, str(rest_s), *map(str, steps), rig=rig)


def check_account(value: dict[str, Any]) -> None:
    """Members, what they shared and the rest are the group's energy, to 1e-9."""
    group, runs = value["group"], value["runs"]
    parts = [run["total"]["energy_j"] for run in runs]
    parts += [group["shared"]["energy_j"], group["rest"]["energy_j"]]
    whole = group["total"]["energy_j"]
    assert whole > 0
    assert math.isclose(math.fsum(p for p in parts if p is not None), whole, rel_tol=1e-9)
    for run, member in zip(runs, group["members"], strict=True):
        assert run["schema"] == 1
        assert run["run"]["id"] == member["id"]
        stated = math.fsum(
            row["energy_j"]
            for row in run["phases"]
            if row["energy_j"] is not None and row["device"] == "gpu0"
        )
        assert math.isclose(stated, run["total"]["energy_j"] or 0.0, rel_tol=1e-9)


@pytest.mark.parametrize("trainings", [3, pytest.param(6, marks=pytest.mark.full)])
def test_one_after_the_other_keep_their_own_joules(trainings: int, tmp_path: Path) -> None:
    steps = tuple(range(20, 20 + 10 * trainings, 10))
    value = swept(tmp_path, "apart", *steps)
    assert [run["run"]["steps"] for run in value["runs"]] == list(steps)
    assert {member["status"] for member in value["group"]["members"]} == {"finished"}
    assert value["group"]["shared"]["energy_j"] is None
    for run in value["runs"]:
        assert math.isclose(run["total"]["energy_j"], 250 * run["run"]["duration_s"], rel_tol=0.05)
        assert not any(source.get("shared") for source in run["sources"])
    assert math.isclose(
        value["group"]["total"]["energy_j"], 250 * value["group"]["duration_s"], rel_tol=0.02
    )
    check_account(value)
    third = report(tmp_path, "latest/3")
    assert third["run"]["steps"] == 40
    assert third["total"] == value["runs"][2]["total"]
    assert report(tmp_path, f"{value['group']['id']}/3")["run"] == third["run"]
    table = processes.probe(tmp_path, "report", "latest").stdout
    assert f"{trainings} trainings" in table
    assert "restart" not in table
    for name in ("html", "md", "csv", "pdf"):
        out = processes.probe(tmp_path, "report", "latest", "--format", name, "-o", f"group.{name}")
        assert out.returncode == 0, out.stderr
    page = (tmp_path / "group.html").read_text()
    assert f"{trainings} trainings: all finished" in page
    assert f"probe report {value['group']['id']}/1" in page
    cells = csv.DictReader((tmp_path / "group.csv").read_text().splitlines())
    rows = [row for row in cells if row["row"] != "phase"]
    group_row, parts = (
        rows[0],
        [row for row in rows if row["row"] in ("training", "shared", "rest")],
    )
    assert math.isclose(float(group_row["energy_j"]), value["group"]["total"]["energy_j"])
    assert math.isclose(
        math.fsum(float(row["energy_j"]) for row in parts),
        float(group_row["energy_j"]),
        rel_tol=1e-9,
    )
    listing = processes.probe(tmp_path, "ls").stdout.splitlines()
    assert len(listing) == 2 + trainings, listing  # the head, the group, its trainings
    rows = json.loads(processes.probe(tmp_path, "ls", "--json").stdout)
    assert len(rows) == 1
    assert rows[0]["steps"] == sum(steps)
    assert [row["energy_j"] for row in rows[0]["trainings"]] == [
        run["total"]["energy_j"] for run in value["runs"]
    ]
    assert rows[0]["energy_j"] == pytest.approx(value["group"]["total"]["energy_j"], rel=1e-9)
    for command in (("compare", "latest", "latest/1"), ("export", "latest", "--to", "mllog")):
        refused = processes.probe(tmp_path, *command)
        assert refused.returncode == 1
        assert len(refused.stderr.strip().splitlines()) == 1
        assert "latest/1" in refused.stderr
    both = processes.probe(tmp_path, "compare", "latest/1", "latest/2")
    assert both.returncode == 0, both.stderr


def test_four_at_once_share_the_meter_which_counts_once(tmp_path: Path) -> None:
    value = swept(tmp_path, "together", 100, 110, 120, 130)
    assert sorted(run["run"]["steps"] for run in value["runs"]) == [100, 110, 120, 130]
    for run in value["runs"]:
        (gpu,) = [s for s in run["sources"] if s["source"].endswith(":energy")]
        assert gpu["in_total"] is False
        assert gpu["shared"] is True
        assert run["total"]["energy_j"] is None
        assert all(row["energy_j"] is None for row in run["phases"])
    shared = value["group"]["shared"]
    assert shared["trainings"] == [1, 2, 3, 4]
    assert math.isclose(shared["energy_j"], 250 * shared["duration_s"], rel_tol=0.02)
    check_account(value)


def test_one_training_is_the_run_itself(tmp_path: Path) -> None:
    value = ran(tmp_path, "train.py", "25", "0.01")
    assert "group" not in value
    assert value["run"]["steps"] == 25
    assert report(tmp_path, "latest/1")["run"] == value["run"]
    refused = processes.probe(tmp_path, "report", "latest/2")
    assert refused.returncode == 1
    assert "has 1 training" in refused.stderr


POOL = """
import multiprocessing, sys
from core import train
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        pool.map(train, [10, 10, 10, 10], chunksize=1)
"""

EXECUTOR = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from core import train
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        list(pool.map(train, [10, 10, 10, 10]))
"""

AGAIN_BY_EXEC = """
import os, sys
from core import train
train(30 if sys.argv[1:] else 20)
if not sys.argv[1:]:
    os.execv(sys.executable, [sys.executable, sys.argv[0], "again"])
"""

HOGWILD = """
import sys, torch, torch.multiprocessing as mp
from core import train
if __name__ == "__main__":
    model = torch.nn.Linear(8, 8)
    model.share_memory()
    context = mp.get_context(sys.argv[1])
    workers = [context.Process(target=train, args=(10, 0.005, model)) for _ in range(2)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
"""

FORKED = """
import os
from core import train
train(30)
for code in (0, 7):
    child = os.fork()
    if child == 0:
        train(20)
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
train(5)
"""

ENDINGS = """
import subprocess, sys
for end in (
    "raise ValueError('no such file, token=hf_abcdefghijklmnopqrstuvwxyz012345')",
    "import sys; sys.exit(3)",
    "import os; os.kill(os.getpid(), 9)",
):
    subprocess.run([sys.executable, "-c", "from core import train; train(10); " + end])
"""

SPAWNED_RANKS = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank):
    dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).mean().backward()
        optimizer.step()
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""


# At the end the seconds of all forwards, between clocks inside and between clocks around them.
THREADS = """
import json, sys, threading, time, torch
inside_s, around_s = [], []

class Slow(torch.nn.Module):
    def __init__(self, rest_s):
        super().__init__()
        self.linear, self.rest_s = torch.nn.Linear(8, 8), rest_s
    def forward(self, x):
        begin_s = time.perf_counter()
        time.sleep(self.rest_s)
        y = self.linear(x)
        inside_s.append(time.perf_counter() - begin_s)
        return y

def train(number, steps):
    model = Slow(0.01 * number)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(4, 8)
    for _ in range(steps):
        begin_s = time.perf_counter()
        loss = model(x).mean()
        loss.backward()
        around_s.append(time.perf_counter() - begin_s)
        optimizer.step()
        optimizer.zero_grad()

threads = [threading.Thread(target=train, args=(n, 20 + n)) for n in (1, 2, 3, 4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with open("seconds.json", "w") as file:
    json.dump([sum(inside_s), sum(around_s)], file)
"""


def members(tmp_path: Path, script: str, *arguments: str) -> list[tuple[int, str]]:
    """(steps, status) of the trainings of a script."""
    processes.write(tmp_path / "script.py", script)
    value = ran(tmp_path, "script.py", *arguments)
    return [(m["steps"], m["status"]) for m in value["group"]["members"]]


@pytest.mark.parametrize("start", ["spawn", pytest.param("fork", marks=pytest.mark.full)])
def test_a_pools_workers_keep_every_step_though_it_terminates_them(
    start: str, tmp_path: Path
) -> None:
    trainings = members(tmp_path, POOL, start)
    assert sum(steps for steps, _ in trainings) == 40
    assert {status for _, status in trainings} == {"finished"}


def test_a_fork_servers_workers_end_as_they_do(tmp_path: Path) -> None:
    trainings = members(tmp_path, EXECUTOR, "forkserver")
    assert sum(steps for steps, _ in trainings) == 40
    assert {status for _, status in trainings} == {"finished"}


def test_a_script_that_replaces_itself_by_exec_keeps_both_trainings(tmp_path: Path) -> None:
    (before, status), after = members(tmp_path, AGAIN_BY_EXEC)
    assert after == (30, "finished") and status == "finished"
    assert before in (19, 20)  # nothing came after the last step that would have closed it
    first, second = report(tmp_path, "latest")["group"]["members"]
    assert "replaced itself" in first["ended_by"] and not second["ended_by"]
    assert report(tmp_path, "latest")["group"]["shared"]["energy_j"] is None


@pytest.mark.parametrize("start", ["spawn", pytest.param("fork", marks=pytest.mark.full)])
def test_hogwild(start: str, tmp_path: Path) -> None:
    assert members(tmp_path, HOGWILD, start) == [(10, "finished"), (10, "finished")]


def test_children_that_are_forked_after_the_first_training(tmp_path: Path) -> None:
    trainings = members(tmp_path, FORKED)
    assert trainings == [(35, "finished"), (20, "finished"), (20, "failed")]


def test_how_each_ended_is_said_in_words_without_secrets(tmp_path: Path) -> None:
    assert [status for _, status in members(tmp_path, ENDINGS)] == ["failed", "failed", "killed"]
    first, second, third = report(tmp_path, "latest")["group"]["members"]
    assert "ValueError: no such file" in first["ended_by"]
    assert "hf_abc" not in json.dumps(report(tmp_path, "latest"))
    assert second["exit_code"] == 3
    assert "died" in third["ended_by"]
    assert third["steps"] >= 9


def test_ranks_that_one_process_spawned_are_one_run(tmp_path: Path) -> None:
    processes.write(tmp_path / "script.py", SPAWNED_RANKS)
    value = ran(tmp_path, "script.py", str(tmp_path / "meeting"))
    assert "group" not in value
    assert value["run"]["ranks"] == 2
    assert value["run"]["steps"] == 12
    assert [row["steps"] for row in value["ranks"]] == [12, 12]


def test_threads_of_one_process_are_one_run_with_the_phases_of_all(tmp_path: Path) -> None:
    processes.write(tmp_path / "script.py", THREADS)
    rig = NvmlRig(tmp_path, gpus=1, power_w=250.0, period_s=0.1)
    value = ran(tmp_path, "script.py", rig=rig)
    assert "group" not in value
    steps = 4 * 20 + 1 + 2 + 3 + 4
    assert value["run"]["steps"] == steps
    rows = {row["phase"]: row for row in value["phases"] if row["device"] == "4 threads, summed"}
    assert rows["forward"]["count"] == rows["backward"]["count"] == steps
    assert rows["optimizer"]["count"] == steps
    inside_s, around_s = json.loads((tmp_path / "seconds.json").read_text())
    assert inside_s < rows["forward"]["time_s"] < around_s
    assert rows["forward"]["time_s"] > 1.5 * max(0.01 * n * (20 + n) for n in (1, 2, 3, 4))
    (unsplit,) = [row for row in value["phases"] if row["device"] == "gpu0"]
    assert unsplit["phase"] == "unattributed"
    assert math.isclose(unsplit["energy_j"], value["total"]["energy_j"], rel_tol=1e-9)
    assert math.isclose(unsplit["energy_j"], 250 * value["run"]["duration_s"], rel_tol=0.05)
    first, share = (line for line in value["warnings"] if "threads" in line)
    assert first.startswith("4 threads trained at the same time: the times of phases are sums")
    assert share.startswith("gpu0: several threads that train at the same time share it")
    text = processes.probe(tmp_path, "report", "latest").stdout
    assert "several threads used the meters' devices at the same time" in " ".join(text.split())
    assert any(line.strip().startswith("! 4 threads trained") for line in text.splitlines()), text
    assert "time of 4 threads, summed" in text
    listed = json.loads(processes.probe(tmp_path, "ls", "--json").stdout)
    assert [row["steps"] for row in listed] == [steps]
