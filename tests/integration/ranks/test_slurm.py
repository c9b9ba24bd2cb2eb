"""``srun probe run -- python train.py`` by a real Slurm of two nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import processes, slurm_cluster

pytestmark = [
    pytest.mark.paced,
    pytest.mark.full,
    pytest.mark.skipif(bool(slurm_cluster.missing()), reason=slurm_cluster.missing()),
]

STEPS = 100
TRAIN = f"""
import os, time
import torch
import torch.distributed as dist
rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_STEP_NUM_TASKS"])
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + os.environ["MEET"], rank=rank,
                        world_size=world)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(int(os.environ.get("STEPS", "{STEPS}"))):
    model(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    if step == 20 and rank == 0:
        print("TRAINS", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with slurm_cluster.cluster(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


def submitted(slurm: dict[str, str], tmp_path: Path, *options: str, **more: str) -> Path:
    """A batch job of four tasks on two nodes; the file that it writes to."""
    train = processes.write(tmp_path / "train.py", TRAIN)
    # One host has both nodes: PROBE_NODE is what two hosts are called anyhow.
    command = f"{sys.executable} -m probe run -- {sys.executable} {train}"
    batch = processes.write(
        tmp_path / "job.sh",
        f"""\
        #!/bin/bash
        #SBATCH --ntasks=4 --nodes=2 --job-name=gpt
        srun bash -c 'export PROBE_NODE=$SLURMD_NODENAME; exec {command}'
        """,
    )
    environment = processes.environment(
        tmp_path / "runs", slurm | {"MEET": str(processes.free_port())} | more
    )
    subprocess.run(
        ["sbatch", *options, "--output", str(tmp_path / "%A-%a.log"), str(batch)],
        env=environment,
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    return tmp_path


def logs(tmp_path: Path, number: int, end: str) -> list[str]:
    """What the job's log files hold, once that many of them have this in them."""

    def texts() -> list[str]:
        return [file.read_text() for file in sorted(tmp_path.glob("*.log"))]

    assert processes.wait_until(lambda: sum(end in text for text in texts()) == number), texts()
    return texts()


def test_four_tasks_on_two_nodes_are_one_run(slurm: dict[str, str], tmp_path: Path) -> None:
    (log,) = logs(submitted(slurm, tmp_path), 1, "probe report")
    block = log[log.index("-- phasewatt") :].strip().splitlines()
    assert len(block) <= 8 and block[0].startswith("-- phasewatt: Slurm job ")
    assert "finished" in block[-2] and "4 ranks" in block[-2]
    run = processes.only_run(tmp_path)
    report = json.loads(processes.probe(tmp_path, "report", "latest", "--format", "json").stdout)
    assert (report["run"]["ranks"], report["run"]["steps"]) == (4, STEPS)
    assert {host["host"] for host in report["hosts"]} == {"n1", "n2"}
    assert report["run"]["scheduler"]["job_name"] == "gpt"
    job = report["run"]["scheduler"]["job_id"]
    listed = json.loads(processes.probe(tmp_path, "ls", "--job", job, "--json").stdout)
    assert [row["id"] for row in listed] == [run.name]


def test_a_cancelled_job_leaves_its_block_in_the_log(slurm: dict[str, str], tmp_path: Path) -> None:
    submitted(slurm, tmp_path, STEPS="1000000")
    logs(tmp_path, 1, "TRAINS")
    environment = os.environ | slurm
    subprocess.run(["scancel", "--name=gpt", "--signal=TERM"], env=environment, check=True)
    (log,) = logs(tmp_path, 1, "probe report")
    assert "killed" in log[log.index("-- phasewatt") :]
    assert processes.status_at_end(processes.only_run(tmp_path)) == "killed"


def test_each_task_of_an_array_is_a_run_of_its_own(slurm: dict[str, str], tmp_path: Path) -> None:
    submitted(slurm, tmp_path, "--array=1-2%1")
    logs(tmp_path, 2, "probe report")
    rows = json.loads(processes.probe(tmp_path, "ls", "--json").stdout)
    assert [(row["steps"], row["status"]) for row in rows] == [(STEPS, "finished")] * 2
    array = {row["job"].partition("_")[0] for row in rows}
    assert len(array) == 1 and {row["job"].partition("_")[2] for row in rows} == {"1", "2"}
