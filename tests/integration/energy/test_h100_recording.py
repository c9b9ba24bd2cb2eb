"""A training on a real card: two independent meters say the same of its phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.two_meters import METERS, powers_by_meter, recorded_training
from tests.fakes import processes


def test_the_counter_and_the_power_samples_of_an_h100_agree(tmp_path: Path) -> None:
    run = recorded_training(tmp_path / "runs")
    meters = powers_by_meter(run)
    counter, samples = (meters[name] for name in METERS)
    assert counter["total_j"] == pytest.approx(samples["total_j"], rel=0.005)
    assert counter["response"]["period_ms"] == pytest.approx(100, abs=0.1)
    assert samples["response"]["period_ms"] == pytest.approx(20, abs=0.1)
    assert abs(counter["response"]["mean_delay_ms"]) < 15
    assert counter["phases"].keys() == samples["phases"].keys()
    for name, phase in counter["phases"].items():
        other = samples["phases"][name]
        apart_w = abs(phase["power_w"] - other["power_w"])
        assert apart_w <= max(phase["half_w"], other["half_w"]), name
    for name in ("forward", "backward"):
        assert counter["phases"][name]["status"] == "resolved"


def test_its_report_is_made_anew_from_the_readings(tmp_path: Path) -> None:
    run = recorded_training(tmp_path / "runs")
    report = processes.probe(tmp_path, "report", run.name)
    assert report.returncode == 0, report.stderr
    first, second = report.stdout.splitlines()[:2]
    assert first.startswith("backward takes 39 ± 5 % of the energy")
    assert second.startswith("13.65 ± 0.12 kJ · 1.19 J per sample · 19.0 J per step")
