"""Joules per phase on a real card: what it offers, how it lags, and known loads in a mixture.

Truth is each load alone for 20 s, metered as a whole; then they alternate every 5 to 50 ms, far
below the counter's period, and every resolved interval, 3 % wider for clocks and temperature
that drift between the two, must hold the truth. Figures go to benchmarks/results/gpu-*.json.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import probe
from probe.calibrate.measure import measure
from probe.calibrate.wave import CudaMatmul
from probe.cli.commands.doctor import examine
from probe.sensors.nvml.calibration import save as keep
from probe.sensors.nvml.session import Session

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
ALONE_S, MIXED_S = 20.0, 60.0
DRIFT = 0.03


def uuid() -> str:
    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"


def note(what: str, found: Any) -> None:
    """Keep a figure with the card, driver and date it is from."""
    name = torch.cuda.get_device_name(0)
    session = Session.open()
    path = RESULTS / f"gpu-{re.sub(r'[^a-z0-9]+', '-', name.lower())}.json"
    told = json.loads(path.read_text()) if path.exists() else {}
    told |= {
        "device": name,
        "driver": session.driver(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        what: found,
    }
    session.close()
    path.write_text(json.dumps(told, indent=1) + "\n")


class Loads:
    """Work that draws different powers; each call is over on the device when it returns."""

    def __init__(self) -> None:
        self._matmul = CudaMatmul(torch, 0)
        self._from = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
        self._to = torch.empty_like(self._from)

    def matmul(self, seconds: float) -> None:
        self._matmul.run(seconds)

    def copy(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._to.copy_(self._from)
            torch.cuda.synchronize()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    @property
    def all(self) -> dict[str, Callable[[float], None]]:
        return {"matmul": self.matmul, "copy": self.copy, "sleep": self.sleep}


def watched(folder: Path, name: str, work: Callable[[Any], None]) -> dict[str, Any]:
    with probe.watch(name=name, dir=str(folder), devices=uuid()) as run:
        work(run)
    data: dict[str, Any] = run.report().to_dict()
    return data


def gpu_rows(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["phase"]: row for row in report["phases"] if row["device"].startswith("gpu")}


def test_what_the_card_offers() -> None:
    nvml = [sensor for sensor in examine().sensors if sensor.sensor.startswith("nvml")]
    note(
        "sources",
        [
            {"quantity": source.quantity, "method": source.method, "note": source.note}
            for sensor in nvml
            for source in sensor.sources
        ],
    )
    note(
        "absent",
        [
            {"what": absence.what, "reason": absence.reason}
            for sensor in nvml
            for absence in sensor.absent
        ],
    )
    assert any(source.in_total for sensor in nvml for source in sensor.sources)


def test_calibration_is_plausible() -> None:
    found = measure(uuid(), CudaMatmul(torch, 0))
    keep(found)
    note("calibration", dataclasses.asdict(found))
    assert 0.005 < found.counter_period_s < 1.0
    assert 0 <= found.lag_s < 0.04 and found.lag_error_s < 0.005


def test_a_mixture_of_known_loads(tmp_path: Path) -> None:
    loads = Loads()
    loads.matmul(10.0)  # warm: leakage follows temperature
    truth = {}
    for name, load in loads.all.items():
        report = watched(tmp_path, name, lambda _run, load=load: load(ALONE_S))
        truth[name] = report["total"]["energy_j"] / report["run"]["duration_s"]

    def mixture(run: Any) -> None:
        chance, end = random.Random(), time.monotonic() + MIXED_S
        while time.monotonic() < end:
            for name in chance.sample(sorted(loads.all), 3):
                with run.phase(name):
                    loads.all[name](chance.uniform(0.005, 0.05))

    rows = gpu_rows(watched(tmp_path, "mixture", mixture))
    told = {}
    for name, watts in truth.items():
        row = rows[name]
        told[name] = {
            "true_w": watts,
            "found_w": row["power_w"],
            "status": row["status"],
            "interval_w": [j / row["time_s"] for j in row["energy_j_interval"] or ()],
        }
    note("mixture", told)
    for name, row in told.items():
        if row["status"] == "resolved":
            low, high = row["interval_w"]
            assert low - DRIFT * row["true_w"] <= row["true_w"] <= high + DRIFT * row["true_w"], (
                name,
                row,
            )
    assert told["matmul"]["status"] == "resolved"


def test_a_forward_that_runs_twice_takes_twice_the_energy(tmp_path: Path) -> None:
    layers = [torch.nn.Linear(4096, 4096) for _ in range(8)]
    model = torch.nn.Sequential(*layers).cuda().half()
    inputs = torch.randn(2048, 4096, device="cuda", dtype=torch.float16)

    def steps(times: int) -> Callable[[Any], None]:
        def work(run: Any) -> None:
            end = time.monotonic() + 40.0
            while time.monotonic() < end:
                with run.phase("forward-alone"), torch.no_grad():
                    for _ in range(10 * times):
                        model(inputs)
                    torch.cuda.synchronize()
                with run.phase("rest"):
                    time.sleep(random.uniform(0.004, 0.02))

        return work

    per = {}
    for times in (1, 2):
        row = gpu_rows(watched(tmp_path, f"x{times}", steps(times)))["forward-alone"]
        assert row["status"] == "resolved", row
        per[times] = (
            row["energy_j"] / row["count"],
            [j / row["count"] for j in row["energy_j_interval"]],
        )
    ratio = per[2][0] / per[1][0]
    note("forward twice", {"joules_each": per, "ratio": ratio})
    low = per[2][1][0] / per[1][1][1] * (1 - DRIFT)
    high = per[2][1][1] / per[1][1][0] * (1 + DRIFT)
    assert low <= 2.0 <= high, per
