"""Which cards a batch job's tasks have: each the right one, and each once, whatever happens."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import processes
from tests.fakes.batch_tasks import (
    PERIOD_S,
    STEPS,
    TRAIN,
    printed,
    report_of_job,
    slurm,
    start,
    true_energy,
)
from tests.fakes.nvml import NvmlRig
from tests.fakes.selection import one_in

pytestmark = pytest.mark.paced

WATTS = (100.0, 200.0, 300.0, 400.0)  # of each card of a node: no two are taken for each other
NODES = ("n0", "n1")


def node(folder: Path) -> NvmlRig:
    """A node's four cards."""
    folder.mkdir(exist_ok=True)
    rig = NvmlRig(folder, gpus=len(WATTS), power_w=WATTS[0], period_s=PERIOD_S)
    for gpu, watts in enumerate(WATTS):
        rig.set_power(gpu, watts)
    return rig


def cards(report: dict[str, Any]) -> dict[str, float]:
    """Joules of each card of a report; each must be there once."""
    rows = [s for s in report["sources"] if s["in_total"] and "gpu" in s["device"]]
    by_card = {row["device"]: row["energy_j"] for row in rows}
    assert len(by_card) == len(rows), rows
    assert report["total"]["energy_j"] == pytest.approx(sum(by_card.values()))
    return by_card


ORDERS = ("2,0", "0,1", "1,0", "3,2", "3,1,2,0", "1,3,0", "uuids of 3,0", "uuids of 2,1,3")


@pytest.mark.parametrize(
    "order",
    [pytest.param(order, marks=[pytest.mark.full] * (k > 0)) for k, order in enumerate(ORDERS)],
)
def test_each_task_has_the_right_card_in_any_order(tmp_path: Path, order: str) -> None:
    rig = node(tmp_path)
    numbers = [int(number) for number in order.removeprefix("uuids of ").split(",")]
    visible = ",".join(map(rig.uuid, numbers)) if order.startswith("uuids") else order
    of_all = rig.env() | {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    printed([start(tmp_path, of_all | slurm(task, 2)) for task in range(2)])
    report = report_of_job(tmp_path)
    assert [row["devices"] for row in report["ranks"]] == [[f"gpu{gpu}"] for gpu in numbers[:2]]
    run, joules = processes.only_run(tmp_path), cards(report)
    assert joules.keys() == {f"gpu{gpu}" for gpu in numbers[:2]}
    for gpu in numbers[:2]:
        assert joules[f"gpu{gpu}"] == pytest.approx(
            true_energy(rig, run, [gpu]), abs=2 * PERIOD_S * WATTS[gpu]
        )


def test_two_jobs_on_a_node_add_up_to_its_cards(tmp_path: Path) -> None:
    rig = node(tmp_path)
    tasks = []
    for job, visible in (("4711", "0,1"), ("4712", "2,3")):
        of_job = {"SLURM_JOB_ID": job, "CUDA_VISIBLE_DEVICES": visible}
        tasks += [start(tmp_path, rig.env() | slurm(task, 2) | of_job) for task in range(2)]
    printed(tasks)
    seen: list[str] = []
    for row in json.loads(processes.probe(tmp_path, "ls", "--json").stdout):
        out = processes.probe(tmp_path, "report", row["id"], "--format", "json")
        joules = cards(json.loads(out.stdout))
        run = tmp_path / "runs" / row["id"]
        for card, energy_j in joules.items():
            gpu = int(card.removeprefix("gpu"))
            assert energy_j == pytest.approx(
                true_energy(rig, run, [gpu]), abs=2 * PERIOD_S * WATTS[gpu]
            )
        seen += joules
    assert sorted(seen) == ["gpu0", "gpu1", "gpu2", "gpu3"]


@pytest.mark.full
def test_an_array_that_is_requeued_twice_is_the_sum_of_its_attempts(tmp_path: Path) -> None:
    """Two nodes with four tasks each; each of three elements is ended twice and starts again."""
    rigs = [node(tmp_path / name) for name in NODES]
    for element in range(3):
        for attempt in range(3):
            tasks = []
            for rank in range(8):
                place, local = divmod(rank, 4)
                variables = slurm(rank, 8) | {
                    "PROBE_NODE": NODES[place],
                    "SLURM_LOCALID": str(local),
                    "SLURM_NODEID": str(place),
                    "SLURM_NNODES": "2",
                    "SLURM_STEP_NUM_NODES": "2",
                    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
                    "SLURM_JOB_ID": str(4711 + element),
                    "SLURM_ARRAY_JOB_ID": "4711",
                    "SLURM_ARRAY_TASK_ID": str(element),
                    "SLURM_RESTART_COUNT": str(attempt),
                }
                steps = [] if attempt == 2 else ["100000"]
                tasks.append(start(tmp_path, rigs[place].env() | variables, *steps))
            if steps:
                for task in tasks:
                    assert task.stdout is not None and task.stdout.readline() == "TRAINS\n"
                for task in tasks:
                    task.send_signal(signal.SIGTERM)
            first, *others = printed(tasks, code=-signal.SIGTERM if steps else 0)
            assert first.strip().startswith("-- phasewatt: Slurm job ")
            assert [text.strip() for text in others] == [""] * 7
    rows = json.loads(processes.probe(tmp_path, "ls", "--job", "4711", "--json").stdout)
    assert sorted((row["job"], row["status"]) for row in rows) == sorted(
        (f"4711_{element}", status)
        for element in range(3)
        for status in ("killed", "killed", "finished")
    )
    energy_j = 0.0
    for row in rows:
        out = processes.probe(tmp_path, "report", row["id"], "--format", "json")
        report = json.loads(out.stdout)
        joules = cards(report)
        assert sorted(joules) == [f"{name}/gpu{gpu}" for name in NODES for gpu in range(4)]
        assert report["run"]["ranks"] == 8
        for name in NODES:  # a node's cards were metered for the same time, and no longer than it
            seconds = [joules[f"{name}/gpu{gpu}"] / watts for gpu, watts in enumerate(WATTS)]
            assert max(seconds) - min(seconds) < 2 * PERIOD_S
            assert max(seconds) < report["run"]["duration_s"] + 2 * PERIOD_S
        energy_j += sum(joules.values())
        assert row["steps"] == STEPS or row["status"] == "killed"
    sums = processes.probe(tmp_path, "ls", "--job", "4711", "--by", "account", "--json")
    of_all_runs = json.loads(sums.stdout)["all"]
    assert of_all_runs["runs"] == 9
    assert of_all_runs["measured_j"] == pytest.approx(energy_j, rel=1e-6)


ENDS = {
    "raise": ("raise ValueError('planted')", 1, "failed"),
    "exit": ("sys.exit(3)", 3, "failed"),
    "term": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -15, "killed"),
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", 128 + 9, "killed"),
}


@pytest.mark.parametrize("ending", one_in(2, ENDS, always=["kill"]))
def test_a_task_that_ends_badly_leaves_the_jobs_block(tmp_path: Path, ending: str) -> None:
    last, code, status = ENDS[ending]
    task = start(tmp_path, slurm(0, 1), code=f"import os, signal\n{TRAIN}\n{last}\n")
    (text,) = printed([task], code=code)
    block = text[text.index("-- phasewatt: Slurm job 4711") :].strip().splitlines()
    assert 4 <= len(block) <= 8 and status in block[-2], text
    assert block[-1] == f"probe report {processes.only_run(tmp_path)}"


def test_where_all_of_a_task_is_killed_the_next_call_tells(tmp_path: Path) -> None:
    code = "import os\n" + TRAIN.replace('print("TRAINS"', "print(os.getpid()")
    task = start(tmp_path, slurm(0, 1), "100000", code=code)
    assert task.stdout is not None
    for number in (task.pid, int(task.stdout.readline())):  # the recorder is left
        os.kill(number, signal.SIGKILL)
    task.wait()
    run = processes.only_run(tmp_path)
    assert processes.status_at_end(run) == "killed"
    out = processes.probe(tmp_path, "ls", "--job", "4711", "--json")
    assert [(row["id"], row["status"]) for row in json.loads(out.stdout)] == [(run.name, "killed")]
