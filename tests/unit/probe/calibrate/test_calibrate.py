"""Calibration on the rig: a load of known power behind a counter of known lag."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from probe.attribution.meter_kinds import accumulator_of
from probe.attribution.response.response import Response
from probe.calibrate import entries, render
from probe.calibrate.measure import measure
from probe.cli.main import main
from probe.model import DeviceRequest
from probe.sensors import SensorContext
from probe.sensors.cards import card_of
from probe.sensors.nvml.calibration import Calibration, folder, load, save
from probe.sensors.nvml.energy import NvmlEnergySensor
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.sensor_driver import ROOT, in_child

KNOWN = Calibration(
    uuid="GPU-x",
    name="a card",
    driver="570.00",
    measured="2026-01-01T00:00:00+00:00",
    lag_s=0.008,
    lag_error_s=0.0005,
    delay_s=0.001,
    delay_error_s=0.0005,
    average_s=None,
    part_s=None,
    counter_period_s=0.1,
    counter_jitter_s=0.0002,
    counter_read_s=1e-5,
    instant_period_s=0.1,
    instant_window_s=0.025,
    average_period_s=0.1,
    average_window_s=1.0,
    fields_clock="wall clock",
)


class RigLoad:
    """Draws 500 W while it runs."""

    def __init__(self, rig: NvmlRig) -> None:
        self._rig = rig

    def run(self, seconds: float) -> None:
        self._rig.set_power(0, 500.0)
        time.sleep(seconds)
        self._rig.set_power(0, 90.0)


@in_child
def test_the_lag_of_the_counter_is_found_and_then_used(tmp_path: Path) -> None:
    import os

    os.environ["PROBE_CALIBRATION"] = str(tmp_path / "kept")
    rig = NvmlRig(tmp_path, power_w=90.0, jitter_s=0.0003)
    rig.gpu(0).lag_ns = 12_000_000
    rig.load()
    record = tmp_path / "reads.npz"
    measured = measure(rig.uuid(0), RigLoad(rig), 12.0, seed=3, record=record)
    with np.load(record) as kept:
        assert len(kept["edge_s"]) == len(kept["busy"]) > 50
        # The counter's own joules over the wave, from what was kept of it.
        begin_s, end_s = kept["edge_s"][[0, -1]]
        counted = np.diff(np.interp([begin_s, end_s], kept["counter_s"], kept["counter_j"]))[0]
        assert 90 * 12 < counted < 500 * 13
        assert len(kept["instant_mw"]) == len(kept["read_s"]) > 1000
    assert measured.lag_s == pytest.approx(0.012, abs=0.0025), measured
    assert abs(measured.delay_s) < 0.0025
    assert measured.counter_period_s == pytest.approx(0.1, rel=0.01)
    assert measured.counter_read_s < 0.002
    assert measured.instant_window_s in (0.02, 0.025, 0.05) and measured.average_window_s == 1.0
    assert measured.instant_period_s == pytest.approx(0.1, abs=0.02)
    assert measured.fields_clock == "wall clock"
    save(measured)
    sensor = NvmlEnergySensor(SensorContext(requests=(DeviceRequest(),)))
    (source,) = sensor.open()
    sensor.close()
    assert source.lag_s == measured.lag_s
    assert accumulator_of(source)._response == Response.of(measured.delay_s, measured.lag_s)


def test_it_is_kept_by_card_and_void_under_another_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_CALIBRATION", str(tmp_path))
    path = save(KNOWN)
    assert path.parent == folder() == tmp_path
    assert load("GPU-x", "570.00") == KNOWN
    assert load("GPU-x", "580.00") is None and load("GPU-y", "570.00") is None
    save(replace(KNOWN, lag_s=float("nan")))
    assert load("GPU-x", "570.00") is None
    path.write_text("{}")
    assert load("GPU-x", "570.00") is None


def test_it_reads_like_a_data_sheet() -> None:
    text = render(KNOWN, Path("/kept/GPU-x.json"))
    assert (
        "first-order lag of 8.0 ± 0.5 ms, 1.0 ± 0.5 ms late" in text and "window 1000.0 ms" in text
    )


@pytest.mark.parametrize("more", [{}, {"part_s": 0.025}, {"average_s": 0.05}], ids=str)
def test_it_prints_entries_that_the_database_takes(more: dict[str, float]) -> None:
    calibration = replace(KNOWN, **more)
    text = render(calibration, Path("/kept/GPU-x.json"))
    printed = json.loads(text[text.index("[\n") :])
    assert printed == entries(calibration)
    counter, power = (card_of(entry) for entry in printed)
    assert counter.quantities == ("energy",) and counter.driver == "570"
    assert counter.window_s == (more.get("part_s") or more.get("average_s"))
    assert counter.delay_s == pytest.approx(0.001 if more else 0.009)
    assert power.window_s == 0.025


def test_a_record_ends_with_npz(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", "--record", "reads.csv"])
    assert ended.value.code == 1
    assert "reads.csv does not end with .npz" in capfd.readouterr().err


def test_without_cuda_it_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "probe", "calibrate"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 2
    assert "no CUDA device" in done.stderr and done.stderr.count("\n") == 1
