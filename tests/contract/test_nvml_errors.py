"""Every NVML function × every NVML error code, at start-up and in mid-run.

Whatever NVML answers: no exception but SensorUnavailable at start-up, no zero in place
of a missing value, a gap or samples from every source, nothing left initialised, and a
device that is well goes on. ``PROVE=1`` runs the whole product; else a seeded part.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from random import Random

from probe.errors import SensorUnavailable
from probe.model import Gap, Reading, Sample, Source
from probe.sensors import Sensor, SensorContext
from probe.sensors.nvml.activity import NvmlActivitySensor
from probe.sensors.nvml.energy import NvmlEnergySensor
from probe.sensors.nvml.power import NvmlPowerSensor
from probe.sensors.nvml.telemetry import NvmlTelemetrySensor
from tests.fakes.nvml import NvmlRig
from tests.fakes.sensor_driver import drive, in_child

SENSORS = (NvmlEnergySensor, NvmlPowerSensor, NvmlTelemetrySensor, NvmlActivitySensor)
CODES = (*range(1, 31), 999)  # NVML_ERROR_*
PART = 120  # combinations of each kind in the short run
DURING_S = 8.0  # longer than any sensor waits before it calls a silence a gap


def machine(folder: Path) -> NvmlRig:
    """Two GPUs none of whose true readings is zero, all calls supported."""
    rig = NvmlRig(folder, gpus=2, virtual=True)
    for gpu in (rig.gpu(0), rig.gpu(1)):
        gpu.sample_spacing_ns = 20_000_000
        gpu.event_reasons, gpu.cap_w = 0x4, 100.0
    rig.load()
    return rig


def combinations(rig: NvmlRig, seed: int) -> list[tuple[str, int]]:
    every = list(product(rig.functions, CODES))
    return every if os.environ.get("PROVE") == "1" else Random(seed).sample(every, PART)


def open_all(rig: NvmlRig) -> tuple[list[Sensor], list[Source]]:
    """All sensors that start; the others must have said why."""
    opened: list[Sensor] = []
    sources: list[Source] = []
    for make in SENSORS:
        sensor = make(SensorContext(clock=rig.clock()))
        try:
            sources_opened = sensor.open()
        except SensorUnavailable as error:
            assert error.reason
            continue
        assert sources_opened
        opened.append(sensor)
        sources += sources_opened
    return opened, sources


def check(readings: list[Reading], sources: list[Source], context: str) -> None:
    named = {r.source if isinstance(r, Sample) else r.what for r in readings}
    assert named == {source.id for source in sources}, context
    for reading in readings:
        if isinstance(reading, Sample):
            assert reading.value != 0, f"{context}: a zero for a missing value: {reading}"
        else:
            assert reading.reason, context
            assert reading.begin_ns <= reading.end_ns, context


def close_all(sensors: list[Sensor], rig: NvmlRig, context: str) -> None:
    rig.clear()  # nvmlShutdown itself may have been the one to fail
    for sensor in sensors:
        sensor.close()
        sensor.close()
    assert rig.initialised == 0, context


@in_child
def test_every_function_and_code_at_start_up(tmp_path: Path) -> None:
    rig = machine(tmp_path)
    for function, code in combinations(rig, 1):
        context = f"{function} returns {code} from the start"
        rig.fail(function, code)
        try:
            sensors, sources = open_all(rig)
            if sensors:
                total = [s.device for s in sources if s.in_total]
                assert len(total) == len(set(total)), f"{context}: a joule counted twice"
                check(drive(sensors, rig.clock(), 2.5), sources, context)
        except Exception as error:
            raise AssertionError(context) from error
        close_all(sensors, rig, context)


@in_child
def test_every_function_and_code_in_mid_run(tmp_path: Path) -> None:
    rig = machine(tmp_path)
    clock = rig.clock()
    for function, code in combinations(rig, 2):
        context = f"{function} returns {code} in mid-run"
        sensors, sources = open_all(rig)
        well = [source for source in sources if source.device == "gpu1"]
        try:
            drive(sensors, clock, 1.5)
            rig.fail(function, code, gpu=0)
            readings = drive(sensors, clock, DURING_S)
            check(readings, sources, context)
            ids = {source.id for source in well}
            assert not [r for r in readings if isinstance(r, Gap) and r.what in ids], context
            rig.clear()
            readings = drive(sensors, clock, 3.0)
            silent = {s.id for s in sources} - {r.source for r in readings if isinstance(r, Sample)}
            assert not silent, f"{context}: {silent} did not come back"
        except Exception as error:
            raise AssertionError(context) from error
        close_all(sensors, rig, context)


@in_child
def test_a_driver_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    """All functions at once: the driver is unloaded, the library uninitialised."""
    rig = machine(tmp_path)
    clock = rig.clock()
    for code in (1, 9, 15, 16, 28, 999):
        sensors, sources = open_all(rig)
        drive(sensors, clock, 2.0)
        rig.fail(None, code)
        check(drive(sensors, clock, DURING_S), sources, f"everything returns {code}")
        rig.clear()
        readings = drive(sensors, clock, 5.0)
        assert {r.source for r in readings if isinstance(r, Sample)} == {s.id for s in sources}
        for sensor in sensors:
            sensor.close()
        rig.control.initialised = 0


@in_child
def test_every_optional_function_may_be_missing(tmp_path: Path) -> None:
    """FUNCTION_NOT_FOUND (13) is what pynvml makes of a symbol that is not there."""
    rig = machine(tmp_path)
    needed = {"nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"}
    for function in rig.functions:
        if function not in needed and function != "nvmlShutdown":
            rig.fail(function, 13)
    sensors, sources = open_all(rig)
    assert sources == []
    rig.clear()
    for function in rig.functions:
        optional = function not in needed and function != "nvmlShutdown"
        if optional and function != "nvmlDeviceGetTotalEnergyConsumption":
            rig.fail(function, 13)
    sensors, sources = open_all(rig)
    assert [source.id for source in sources] == ["nvml:index-0:energy", "nvml:index-1:energy"]
    check(drive(sensors, rig.clock(), 3.0), sources, "only the counter is there")
    close_all(sensors, rig, "only the counter is there")
