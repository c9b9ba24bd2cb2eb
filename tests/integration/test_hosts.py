"""A job of two hosts: networks, names, shared memory and monotonic clocks of their own."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from probe.store import files
from probe.store.reader import RunReader
from tests.fakes.namespaced_hosts import Host, hosts, possible
from tests.fakes.nvml import NvmlRig

from ..fakes import processes
from .test_prometheus import needs_prometheus, query, wait_for

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        not possible(), reason="hosts need root, util-linux and iproute2: apt-get install iproute2"
    ),
]
NAMES, AHEAD_S, RANKS, PERIOD_S = ("alpha", "beta"), (0, 1000), 2, 0.1
KILLS = 10 if os.environ.get("PROVE") else 1
FLEET = processes.ROOT / "examples/fleet"
SCRIPT = str(processes.ROOT / "tests/scripts/train_ranks.py")


@dataclass
class Node:
    """A host with two GPUs."""

    host: Host
    rig: NvmlRig
    process: subprocess.Popen[str]


@contextmanager
def job(
    tmp_path: Path,
    *arguments: str,
    shared: bool = True,
    static: bool = False,
    extra: dict[str, str] | None = None,
) -> Iterator[list[Node]]:
    """A job on two hosts, launched by torchrun on each."""
    with hosts(*NAMES, ahead_s=AHEAD_S) as made:
        nodes = []
        port = str(processes.free_port())
        for place, host in enumerate(made):
            (tmp_path / host.name).mkdir()
            rig = NvmlRig(tmp_path / host.name, gpus=2, power_w=100.0, period_s=PERIOD_S)
            for gpu in range(2):  # as on another machine: cards of its own
                rig.gpu(gpu).uuid = f"GPU-{place}{gpu:07x}-1111-2222-3333-444455556666".encode()
            runs = tmp_path / "runs" if shared else tmp_path / host.name / "runs"
            meeting = (
                ["--master-addr", made[0].address, "--master-port", port]
                if static
                else [
                    "--rdzv-backend",
                    "c10d",
                    "--rdzv-endpoint",
                    f"{made[0].address}:{port}",
                    "--rdzv-id",
                    f"job-{tmp_path.name}",
                ]
            )
            command = [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nnodes",
                "2",
                "--node-rank",
                str(place),
                "--nproc-per-node",
                str(RANKS),
                *meeting,
                SCRIPT,
                *arguments,
            ]
            with (tmp_path / host.name / "out").open("w") as out:
                process = host.popen(
                    command,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=tmp_path,
                    env=processes.environment(runs, rig.env() | (extra or {})),
                )
            nodes.append(Node(host, rig, process))
        try:
            yield nodes
        finally:
            for node in nodes:
                node.process.kill()
                node.process.wait()


def ended(tmp_path: Path, nodes: list[Node]) -> None:
    for node in nodes:
        assert node.process.wait(timeout=120) == 0, (tmp_path / node.host.name / "out").read_text()
    runs = [file.parent for file in tmp_path.glob("**/runs/*/run.json")]
    assert processes.wait_until(lambda: all(RunReader(run).status != "running" for run in runs), 30)


def report_of(tmp_path: Path, run: Path) -> dict[str, Any]:
    out = processes.probe(tmp_path, "report", str(run), "--format", "json")
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)  # type: ignore[no-any-return]


def checked(run: Path, report: dict[str, Any], rigs: dict[str, NvmlRig]) -> None:
    """One job of two hosts, each joule once, clocks as they are."""
    assert report["run"]["status"] == "finished"
    assert report["run"]["ranks"] == len(NAMES) * RANKS
    assert [row["host"] for row in report["hosts"]] == list(NAMES)
    counted = {one["device"]: one["energy_j"] for one in report["sources"] if one["in_total"]}
    assert counted.keys() == {f"{name}/gpu{i}" for name in NAMES for i in range(2)}
    home = json.loads((run / "run.json").read_text())
    for name, rig in rigs.items():
        told = (
            home
            if home["host"] == name
            else json.loads((run / f"node-{name}" / "node.json").read_text())
        )
        for gpu in range(2):
            true = rig.true_energy_j(gpu, told["begin_ns"], told["end_ns"])
            mean_w = true / ((told["end_ns"] - told["begin_ns"]) / 1e9)
            assert counted[f"{name}/gpu{gpu}"] == pytest.approx(true, abs=PERIOD_S * mean_w)
    assert report["total"]["energy_j"] == pytest.approx(math.fsum(counted.values()))
    ranks = {row["rank"]: row for row in report["ranks"]}
    assert {rank: row["host"] for rank, row in ranks.items()} == {
        0: "alpha",
        1: "alpha",
        2: "beta",
        3: "beta",
    }
    assert ranks[3]["energy_j"] == pytest.approx(counted["beta/gpu1"])
    clocks = [row["clock"] for row in report["hosts"]]
    apart = clocks[1]["offset_s"] - clocks[0]["offset_s"]
    bound = clocks[0]["bound_s"] + clocks[1]["bound_s"]
    assert bound <= 1e-3
    assert apart == pytest.approx(-(AHEAD_S[1] - AHEAD_S[0]), abs=bound)


def test_one_run_of_two_hosts(tmp_path: Path) -> None:
    with job(tmp_path, "--seconds", "4") as nodes:
        ended(tmp_path, nodes)
        run = processes.only_run(tmp_path)
        report = report_of(tmp_path, run)
        checked(run, report, {node.host.name: node.rig for node in nodes})
        listed = json.loads(processes.probe(tmp_path, "ls", "--json").stdout)
        assert [row["energy_j"] for row in listed] == [
            pytest.approx(report["total"]["energy_j"], rel=1e-3)
        ]
        # The same from raw data, and as text.
        again = processes.probe(tmp_path, "report", str(run), "--recompute", "--format", "json")
        assert json.loads(again.stdout)["total"]["energy_j"] == pytest.approx(
            report["total"]["energy_j"], rel=1e-3
        )
        text = processes.probe(tmp_path, "report", str(run)).stdout
        assert "alpha/gpu0" in text
        told = re.search(r"[+−](\d+\.\d{6}) s ± ", text)
        assert told and float(told[1]) == pytest.approx(1000, abs=1e-3)
        fleet_of_files(
            tmp_path,
            run,
            math.fsum(one["energy_j"] for one in report["sources"] if one["in_total"]),
        )


def trained(run: Path, host: str) -> int:
    """Steps of a host's ranks that its recorder has seen."""
    return int((files.read_json(run / f"node-{host}" / "live.json") or {}).get("steps") or 0)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_host_goes_down(seed: int, tmp_path: Path) -> None:
    """All that ran on it is killed at once: the other's joules are complete, its own as far as
    they were on disk.
    """
    with job(tmp_path, "--seconds", "60") as nodes:
        assert processes.wait_until(
            lambda: all("RUN" in (tmp_path / name / "out").read_text() for name in NAMES), 60
        )
        run = processes.only_run(tmp_path)
        assert processes.wait_until(lambda: all(trained(run, name) >= 20 for name in NAMES), 60)
        time.sleep(random.Random(seed).uniform(0, 2))
        nodes[1].host.kill()
        nodes[0].process.wait(90)
        home = json.loads((run / "run.json").read_text())["host"]
        file = run / ("run.json" if home == "alpha" else "node-alpha/node.json")
        assert processes.wait_until(lambda: json.loads(file.read_text())["status"] != "running", 30)
        time.sleep(16)  # until nothing is expected of the other one any more
        report = report_of(tmp_path, run)
        hosts_ = {row["host"]: row for row in report["hosts"]}
        assert hosts_["alpha"]["status"] in ("failed", "killed")
        assert hosts_["beta"]["status"] in ("lost", "killed")
        assert "beta: nothing was heard of it any more" in report["run"]["ended_by"]
        assert hosts_["beta"]["duration_s"] > 1.0
        told = json.loads(file.read_text())
        for gpu in range(2):
            counted = next(
                one["energy_j"]
                for one in report["sources"]
                if one["device"] == f"alpha/gpu{gpu}" and one["in_total"]
            )
            true = nodes[0].rig.true_energy_j(gpu, told["begin_ns"], told["end_ns"])
            assert counted == pytest.approx(true, rel=0.05)
            assert (
                next(
                    one["energy_j"]
                    for one in report["sources"]
                    if one["device"] == f"beta/gpu{gpu}" and one["in_total"]
                )
                > 0
            )
        steps = {row["rank"]: row["steps"] for row in report["ranks"]}
        assert min(steps[0], steps[1]) > 5
        assert max(steps[2], steps[3]) > 5  # what was drained before is kept


def fleet_of_files(tmp_path: Path, run: Path, joules: float) -> None:
    """Parquet in a bucket (a folder here) tells the joules of the fleet."""
    bucket = tmp_path / "bucket"
    out = processes.probe(
        tmp_path,
        "export",
        str(run),
        "--to",
        "parquet",
        "-o",
        str(bucket / "cluster=here" / f"run={run.name}" / "samples.parquet"),
    )
    assert out.returncode == 0, out.stderr
    done = subprocess.run(
        [sys.executable, str(FLEET / "joules.py"), str(bucket)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("  ") for line in done.stdout.splitlines()]
    assert [row[2] for row in rows] == [f"{name}/gpu{i}" for name in NAMES for i in range(2)]
    # The counters' first and last readings: a little less than the report, which reaches the ends.
    assert joules * 0.8 < sum(float(row[3].split()[0]) for row in rows) < joules * 1.02


@needs_prometheus
def test_every_host_is_scraped_and_a_central_store_knows_the_fleet(tmp_path: Path) -> None:
    """The files of examples/fleet, with their addresses put in."""
    here = tmp_path / "fleet"
    here.mkdir()
    central, agent = processes.free_port(), processes.free_port()
    for name in ("agent.yml", "central.yml"):
        text = (FLEET / name).read_text().replace("127.0.0.1:9090", f"127.0.0.1:{central}")
        (here / name).write_text(text.replace("scrape_interval: 5s", "scrape_interval: 1s"))
    (here / "token").write_text("secret")
    started = []
    try:
        started.append(
            prometheus(
                here,
                "central",
                central,
                "--web.enable-remote-write-receiver",
                f"--storage.tsdb.path={here / 'central'}",
            )
        )
        extra = {"PROBE_PROMETHEUS": "0.0.0.0:9400", "PROBE_TOKEN": "secret"}
        with job(tmp_path, "--seconds", "32", extra=extra) as nodes:
            (here / "nodes.json").write_text(
                json.dumps([{"targets": [f"{node.host.address}:9400" for node in nodes]}])
            )
            started.append(
                prometheus(
                    here,
                    "agent",
                    agent,
                    "--enable-feature=agent",
                    f"--storage.agent.path={here / 'agent'}",
                )
            )
            base = f"http://127.0.0.1:{central}"
            assert processes.wait_until(
                lambda: len(query(base, 'up{job="phasewatt",cluster="here"} == 1')) == 2, 60
            )
            watts = "sum by (instance) (rate(probe_gpu_energy_joules_total[8s]))"
            assert processes.wait_until(lambda: len(query(base, watts)) == 2, 40)
            time.sleep(14)  # it all comes some seconds late, and must be of the training alone
            for row in query(base, watts):
                node = next(
                    n
                    for n in nodes
                    if n.host.address == row["metric"]["instance"].partition(":")[0]
                )
                shown = float(row["value"][1])
                now = max(
                    node.rig.gpu(gpu).tape[node.rig.gpu(gpu).tape_count - 1].time_ns
                    for gpu in range(2)
                )
                true = sum(node.rig.true_energy_j(gpu, now - 8 * 10**9, now) for gpu in range(2))
                assert shown == pytest.approx(true / 8, rel=0.1)
            ended(tmp_path, nodes)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(20)


def prometheus(folder: Path, name: str, port: int, *options: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder / name}.yml",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
            *options,
        ],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(f"http://127.0.0.1:{port}/-/ready", "Ready")
    return process


def test_what_was_written_apart_is_merged(tmp_path: Path) -> None:
    """No shared file system, a launcher without an id, and the group is made inside the watch."""
    with job(tmp_path, "--seconds", "4", "--late", shared=False, static=True) as nodes:
        ended(tmp_path, nodes)
        parts = [next((tmp_path / name / "runs").glob("*/run.json")).parent for name in NAMES]
        assert parts[0].name != parts[1].name
        out = processes.probe(tmp_path, "merge", *map(str, parts))
        assert out.returncode == 0, out.stderr
        run = Path(out.stdout.strip().splitlines()[-1])
        checked(run, report_of(tmp_path, run), {node.host.name: node.rig for node in nodes})
        # Once more changes nothing.
        again = processes.probe(tmp_path, "merge", *map(str, parts))
        assert again.returncode == 0
        assert "already" in again.stdout
