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
from pathlib import Path
from typing import Any

import pytest

from probe.store import files
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.two_host_job import AHEAD_S, NAMES, PERIOD_S, RANKS, ended, job, needs_hosts

pytestmark = [pytest.mark.paced, needs_hosts]
KILLS = 10 if os.environ.get("PROVE") else 1
FLEET = processes.ROOT / "examples/fleet"


def report_of(tmp_path: Path, run: Path) -> dict[str, Any]:
    out = processes.probe(tmp_path, "report", str(run), "--format", "json")
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)  # type: ignore[no-any-return]


def checked(run: Path, report: dict[str, Any], rigs: dict[str, NvmlRig]) -> None:
    """One job of two hosts, each joule once, clocks as they are."""
    assert report["run"]["status"] == "finished"
    assert report["run"]["ranks"] == len(NAMES) * RANKS
    assert [row["host"] for row in report["hosts"]] == list(NAMES)
    counted = {
        source["device"]: source["energy_j"] for source in report["sources"] if source["in_total"]
    }
    assert counted.keys() == {f"{name}/gpu{i}" for name in NAMES for i in range(2)}
    home = json.loads((run / "run.json").read_text())
    for name, rig in rigs.items():
        said = (
            home
            if home["host"] == name
            else json.loads((run / f"node-{name}" / "node.json").read_text())
        )
        for gpu in range(2):
            true = rig.true_energy_j(gpu, said["begin_ns"], said["end_ns"])
            mean_w = true / ((said["end_ns"] - said["begin_ns"]) / 1e9)
            # Up to one period at each end is not read; its energy is extrapolated.
            assert counted[f"{name}/gpu{gpu}"] == pytest.approx(true, abs=2 * PERIOD_S * mean_w)
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
        match = re.search(r"[+−](\d+\.\d{6}) s ± ", text)
        assert match and float(match[1]) == pytest.approx(1000, abs=1e-3)
        fleet_of_files(
            tmp_path,
            run,
            math.fsum(source["energy_j"] for source in report["sources"] if source["in_total"]),
        )


def trained(run: Path, host: str) -> int:
    """Steps of a host's ranks that its recorder has seen."""
    return int((files.read_json(run / f"node-{host}" / "live.json") or {}).get("steps") or 0)


@pytest.mark.full
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
        assert processes.wait_until(lambda: all(trained(run, name) >= 20 for name in NAMES))
        time.sleep(random.Random(seed).uniform(0, 2))
        nodes[1].host.kill()
        nodes[0].process.wait(timeout=processes.HUNG_S)
        home = json.loads((run / "run.json").read_text())["host"]
        file = run / ("run.json" if home == "alpha" else "node-alpha/node.json")
        assert processes.wait_until(lambda: json.loads(file.read_text())["status"] != "running")
        time.sleep(16)  # until nothing is expected of the other one any more
        report = report_of(tmp_path, run)
        hosts_ = {row["host"]: row for row in report["hosts"]}
        assert hosts_["alpha"]["status"] in ("failed", "killed")
        assert hosts_["beta"]["status"] in ("lost", "killed")
        assert "beta: nothing was heard of it any more" in report["run"]["ended_by"]
        assert hosts_["beta"]["duration_s"] > 1.0
        stored = json.loads(file.read_text())
        for gpu in range(2):
            counted = next(
                source["energy_j"]
                for source in report["sources"]
                if source["device"] == f"alpha/gpu{gpu}" and source["in_total"]
            )
            true = nodes[0].rig.true_energy_j(gpu, stored["begin_ns"], stored["end_ns"])
            assert counted == pytest.approx(true, rel=0.05)
            assert (
                next(
                    source["energy_j"]
                    for source in report["sources"]
                    if source["device"] == f"beta/gpu{gpu}" and source["in_total"]
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


@pytest.mark.full
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
