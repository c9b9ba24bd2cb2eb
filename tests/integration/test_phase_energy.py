"""Known power per phase in a real training process: do the intervals hold the truth?"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe.store.reader import RunReader
from probe.timeline.rank_timeline import timeline
from tests.fakes.nvml import NvmlRig
from tests.scripts import SCRIPTS

from ..fakes import processes
from .test_totals import closes

pytestmark = pytest.mark.alone

PACED = SCRIPTS / "train_paced.py"
CAP_W = 400.0
PROVE = bool(os.environ.get("PROVE"))
RUNS, SECONDS, AT_ONCE = (40, 30.0, 4) if PROVE else (3, 20.0, 3)


def one_run(
    folder: Path,
    seed: int,
    seconds: float = SECONDS,
    prepare: Callable[[NvmlRig], None] = lambda rig: None,
) -> dict[str, Any]:
    """Train, report, and the true joules per phase: the rig's tape over the recorded spans."""
    folder.mkdir()
    rig = NvmlRig(folder, gpus=1, power_w=60.0, period_s=0.1, jitter_s=0.0002)
    prepare(rig)
    env = {
        **os.environ,
        **rig.env(),
        "PROBE_DIR": str(folder / "runs"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(processes.ROOT),
    }
    done = subprocess.run(
        [sys.executable, str(PACED), str(seconds), str(seed)],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    out = processes.probe(folder, "report", "latest", "--format", "json")
    assert out.returncode == 0, out.stderr
    again = processes.probe(folder, "report", "latest", "--format", "json", "--recompute")
    report = json.loads(out.stdout)
    assert agree(report, json.loads(again.stdout))
    (run,) = (folder / "runs").iterdir()
    assert list(run.glob("node-*/statistics-*.npz"))
    spans = timeline(RunReader(run), 0)
    assert spans is not None
    tape = rig.gpu(0).tape[: rig.gpu(0).tape_count]
    time_ns = np.array([t.time_ns for t in tape])
    watts = np.array([t.watts for t in tape])
    joules = np.concatenate([[0.0], np.cumsum(watts[:-1] * np.diff(time_ns) / 1e9)])

    def energy(at):
        k = np.searchsorted(time_ns, at, "right") - 1
        return joules[k] + watts[k] * (at - time_ns[k]) / 1e9

    def per_phase(total: Callable[[Any], Any]) -> dict[str, float]:
        spent = total(spans.end_ns) - total(spans.begin_ns)
        return {
            spans.name(int(code)): float(spent[spans.code == code].sum())
            for code in np.unique(spans.code)
        }

    report["truth"] = per_phase(energy)
    capped = np.concatenate(
        [[0.0], np.cumsum(np.where(watts[:-1] >= CAP_W, np.diff(time_ns) / 1e9, 0.0))]
    )
    report["capped_s"] = per_phase(lambda at: np.interp(at, time_ns, capped))
    reader = RunReader(run)
    report["true_total_j"] = float(np.diff(energy(np.array([reader.begin_ns, reader.end_ns()])))[0])
    return report


def agree(streamed: dict[str, Any], recomputed: dict[str, Any]) -> bool:
    """The recorder's own statistics and the raw data say the same, well inside the intervals."""
    compared = 0
    for row, other in zip(streamed["phases"], recomputed["phases"], strict=True):
        assert row["phase"] == other["phase"] and row["status"] == other["status"]
        if row["energy_j"] is not None and row["energy_j_interval"]:
            half = (row["energy_j_interval"][1] - row["energy_j_interval"][0]) / 2
            assert abs(row["energy_j"] - other["energy_j"]) <= 0.5 * half + 1e-6
            compared += 1
    return compared > 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_intervals_hold_the_true_energy_of_each_phase(tmp_path: Path) -> None:
    seeds = [random.SystemRandom().randrange(2**31) for _ in range(RUNS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        reports = list(pool.map(lambda seed: one_run(tmp_path / str(seed), seed), seeds))
    resolved: list[bool] = []
    for seed, report in zip(seeds, reports, strict=True):
        closes(report)
        rows = {r["phase"]: r for r in report["phases"] if r["device"] == "gpu0"}
        for name in ("data", "forward", "backward", "optimizer"):
            row, truth = rows[name], report["truth"][name]
            if row["status"] == "resolved":
                low, high = row["energy_j_interval"]
                resolved.append(low <= truth <= high)
                print(seed, name, round(truth, 1), row["energy_j"], low, high)
            elif row["status"] == "not_identifiable":
                assert row["energy_j"] is None
                assert row["bounds_j"][0] <= truth <= row["bounds_j"][1]
        assert rows["forward"]["status"] == rows["backward"]["status"] == "resolved"
        assert abs(rows["backward"]["energy_j"] / report["truth"]["backward"] - 1) < 0.1
    held = sum(resolved)
    print(
        f"coverage of resolved intervals: {held} of {len(resolved)}, "
        f"95 % lower bound {lower_bound(held, len(resolved)):.3f}"
    )
    if PROVE:
        assert lower_bound(held, len(resolved)) >= 0.90
    else:
        assert held >= 0.75 * len(resolved)


def test_activity_and_the_cap_are_attributed_like_power(tmp_path: Path) -> None:
    """GPM and violation time know no lag; SM activity of the rig is 0.83 of its power in kW."""

    def prepare(rig: NvmlRig) -> None:
        gpu = rig.gpu(0)
        gpu.gpm, gpu.cap_w = 2, CAP_W

    report = one_run(tmp_path / "run", 7, 20.0, prepare)
    closes(report)
    phases = {r["phase"]: r for r in report["phases"] if r["device"] == "gpu0"}
    rates = {(r["quantity"], r["phase"]): r for r in report["rates"]}
    assert {r["device"] for r in report["rates"]} == {"gpu0"}
    seen = 0
    for name in ("data", "forward", "backward", "optimizer"):
        row, truth = phases[name], report["truth"][name]
        assert row["status"] in ("resolved", "weak"), row
        seconds = row["time_s"]
        for quantity, true in (
            ("sm_activity", 0.83e-3 * truth / seconds),
            ("power_cap_time", report["capped_s"][name] / seconds),
        ):
            rate = rates[quantity, name]
            if rate["value"] is not None:
                low, high = rate["interval"]
                assert low - 0.02 <= true <= high + 0.02, (quantity, name, true, rate)
                seen += 1
    assert seen >= 5
    assert rates["sm_activity", "backward"]["status"] == "resolved"
    text = processes.probe(tmp_path / "run", "report", "latest").stdout
    assert "power capped" in text and "DRAM" in text


def test_a_counter_that_disagrees_is_not_believed(tmp_path: Path) -> None:
    def prepare(rig: NvmlRig) -> None:
        gpu = rig.gpu(0)
        gpu.counter_gain, gpu.sample_spacing_ns = 1 / 6, 20_000_000

    report = one_run(tmp_path / "run", 11, 26.0, prepare)
    closes(report)
    meters = {s["source"].rpartition(":")[2]: s for s in report["sources"] if s["device"] == "gpu0"}
    assert not meters["energy"]["in_total"] and meters["power_samples"]["in_total"]
    assert report["total"]["energy_j"] == pytest.approx(report["true_total_j"], rel=0.02)
    assert any("its joules are not used" in line for line in report["warnings"])
    rows = {r["phase"]: r for r in report["phases"] if r["device"] == "gpu0"}
    for name in ("forward", "backward"):
        low, high = rows[name]["energy_j_interval"]
        assert rows[name]["status"] in ("resolved", "weak")
        assert low <= report["truth"][name] * 1.02 and report["truth"][name] * 0.98 <= high


RAPL_LOOP = f"""
import sys, threading, time
sys.path.insert(0, {str(processes.ROOT)!r})
from pathlib import Path
import probe
from tests.fakes.rapl import RaplRig

rig = RaplRig(Path(sys.argv[1]), dram=False)
class Board:
    watts, joules, last = 20.0, 0.0, time.monotonic()
    lock = threading.Lock()
    def spend(self, watts=None):
        with self.lock:
            now = time.monotonic()
            self.joules += self.watts * (now - self.last)
            self.last, self.watts = now, self.watts if watts is None else watts
            rig.set("intel-rapl:0", 1_000_000 + round(self.joules * 1e6))
board = Board()
def meter():
    while True:
        board.spend()
        time.sleep(0.001)
threading.Thread(target=meter, daemon=True).start()
with probe.watch() as run:
    for _ in range(400):
        with run.phase("hot"):
            board.spend(80.0)
            time.sleep(0.023)
        with run.phase("cool"):
            board.spend(20.0)
            time.sleep(0.008)
"""


def test_processor_energy_is_told_apart_on_host_spans(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    done = processes.run(
        RAPL_LOOP, tmp_path, str(folder), extra={"PROBE_POWERCAP_ROOT": str(folder / "powercap")}
    )
    assert done.returncode == 0, done.stderr
    out = processes.probe(tmp_path, "report", "latest", "--format", "json")
    report = json.loads(out.stdout)
    closes(report)
    rows = {r["phase"]: r for r in report["phases"] if r["device"] == "cpu0"}
    for name, watts in (("hot", 80.0), ("cool", 20.0)):
        truth = watts * rows[name]["time_s"]
        assert rows[name]["status"] in ("resolved", "weak"), rows[name]
        # The rig's own thread moves the counter; on a busy machine it comes late.
        assert rows[name]["energy_j"] == pytest.approx(truth, abs=0.06 * 80 * rows["hot"]["time_s"])
        assert rows[name]["provenance"] == "estimated"


def test_a_part_of_a_run_is_solved_by_itself(tmp_path: Path) -> None:
    """Power doubles in the middle: each half knows its own."""
    rig = NvmlRig(tmp_path, gpus=1, power_w=100.0, period_s=0.1)
    script = f"""
    import os, random, sys, time
    sys.path.insert(0, {str(processes.ROOT)!r})
    import probe
    from tests.fakes.nvml import NvmlRig
    rig = NvmlRig.attach(os.environ["NVML_RIG"])
    begin = time.monotonic()
    with probe.watch() as run:
        while (spent := time.monotonic() - begin) < 20:
            more = 2 if spent > 10 else 1
            with run.phase("hot"):
                rig.set_power(0, 300.0 * more)
                time.sleep(random.uniform(0.015, 0.045))
            with run.phase("cool"):
                rig.set_power(0, 100.0 * more)
                time.sleep(random.uniform(0.008, 0.03))
    """
    done = processes.run(script, tmp_path, extra=rig.env())
    assert done.returncode == 0, done.stderr
    parts = {}
    for begin, end in ((0, 10), (10, 20)):
        out = processes.probe(
            tmp_path, "report", "latest", "--format", "json", "--from", str(begin), "--to", str(end)
        )
        assert out.returncode == 0, out.stderr
        parts[begin] = report = json.loads(out.stdout)
        closes(report)
        assert report["run"]["part_s"] == [begin, pytest.approx(end, abs=0.6)]
        assert report["run"]["duration_s"] == pytest.approx(10, abs=0.6)
        rows = {r["phase"]: r for r in report["phases"] if r["device"] == "gpu0"}
        for name, watts in (("hot", 300.0), ("cool", 100.0)):
            truth = watts * (2 if begin else 1) * rows[name]["time_s"]
            low, high = rows[name]["energy_j_interval"]
            assert low * 0.95 <= truth <= high * 1.05, (begin, name, rows[name])
            assert rows[name]["count"] == pytest.approx(200, abs=40)
    whole = json.loads(processes.probe(tmp_path, "report", "latest", "--format", "json").stdout)
    joined = sum(part["total"]["energy_j"] for part in parts.values())
    assert joined == pytest.approx(whole["total"]["energy_j"], rel=0.03)
    wrong = processes.probe(tmp_path, "report", "latest", "--from", "500")
    assert wrong.returncode == 1 and "is no part of a run" in wrong.stderr


def lower_bound(held: int, of: int) -> float:
    """One-sided 95 % Clopper–Pearson bound of a share."""
    from scipy.stats import beta

    return float(beta.ppf(0.05, held, of - held + 1)) if held else 0.0
