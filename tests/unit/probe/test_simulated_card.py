"""The card of `probe demo` through the real pynvml: what it shows is the integral of its tape."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from math import fsum
from pathlib import Path
from random import Random
from typing import Any

import pytest

from probe.clock import MonotonicClock
from probe.model import DeviceRequest
from probe.simulated_card.library import PERIOD_NS, SimulatedLibrary, install
from probe.simulated_card.tape import TapeReader, TapeWriter
from tests.fakes import processes
from tests.fakes.sensor_driver import in_child

BEGIN_NS = 5_000_000_000_000
Levels = list[tuple[int, float]]


def written(path: Path, levels: Levels) -> TapeWriter:
    with path.open("xb+") as file:
        tape = TapeWriter(file, 10_000)
    for time_ns, watts in levels:
        tape.write(time_ns, watts)
    return tape


def drawn(seed: int) -> Levels:
    """Forty seconds of levels that last from 0.1 ms to 60 ms."""
    random, time_ns, levels = Random(seed), BEGIN_NS, []
    while time_ns < BEGIN_NS + 40e9:
        levels.append((time_ns, random.uniform(50, 450)))
        time_ns += random.randint(100_000, 60_000_000)
    return levels


def integral_j(levels: Levels, end_ns: int) -> float:
    """By brute force, over all levels."""
    ends = [time_ns for time_ns, _ in levels[1:]] + [10**18]
    return fsum(
        watts * max(0, min(end, end_ns) - begin) / 1e9
        for (begin, watts), end in zip(levels, ends, strict=True)
    )


def put_under_pynvml(levels: Levels, path: Path) -> tuple[Any, Any, Callable[[int], None]]:
    """(pynvml, the card's handle, what sets the time)."""
    import pynvml

    written(path, levels)
    now = [BEGIN_NS]
    pynvml.nvmlLib = SimulatedLibrary(TapeReader(path), lambda: now[0])
    pynvml.nvmlInit()

    def set_time(time_ns: int) -> None:
        now[0] = time_ns

    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0), set_time


@in_child
def test_the_counter_is_the_integral_at_the_last_of_its_updates(tmp_path: Path) -> None:
    levels = drawn(1)
    nvml, handle, set_time = put_under_pynvml(levels, tmp_path / "tape")
    first_mj = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    shown = []
    times = sorted(BEGIN_NS + Random(2).randrange(40_000_000_000) for _ in range(3000))
    for time_ns in times:
        set_time(time_ns)
        shown.append(nvml.nvmlDeviceGetTotalEnergyConsumption(handle) - first_mj)
        update_ns = BEGIN_NS + (time_ns - BEGIN_NS) // 100_000_000 * 100_000_000
        assert shown[-1] == pytest.approx(1e3 * integral_j(levels, update_ns), abs=1.001)
    assert shown == sorted(shown)
    slots = [(time_ns - BEGIN_NS) // PERIOD_NS for time_ns in times]
    assert len(set(shown)) == len(set(slots))  # it moves once in each period, and never between


@in_child
def test_the_power_is_the_mean_of_the_last_second(tmp_path: Path) -> None:
    levels = drawn(3)
    nvml, handle, set_time = put_under_pynvml(levels, tmp_path / "tape")
    for after_s in (1.0, 2.345, 17.0, 39.9):
        now_ns = BEGIN_NS + round(after_s * 1e9)
        set_time(now_ns)
        joules = integral_j(levels, now_ns) - integral_j(levels, now_ns - 10**9)
        assert nvml.nvmlDeviceGetPowerUsage(handle) == pytest.approx(1e3 * joules, abs=1)


@in_child
def test_it_says_what_it_is_and_lacks_what_it_has_not(tmp_path: Path) -> None:
    nvml, handle, _ = put_under_pynvml([(BEGIN_NS, 100.0)], tmp_path / "tape")
    assert nvml.nvmlDeviceGetCount() == 1
    assert nvml.nvmlDeviceGetName(handle) == "SIMULATED card (phasewatt demo)"
    assert nvml.nvmlDeviceGetUUID(handle).startswith("SIMULATED-")
    with pytest.raises(nvml.NVMLError) as missing:
        nvml.nvmlDeviceGetMemoryInfo(handle)
    assert missing.value.value == nvml.NVML_ERROR_FUNCTION_NOT_FOUND == 13
    with pytest.raises(nvml.NVMLError) as second:
        nvml.nvmlDeviceGetHandleByIndex(1)
    assert second.value.value == nvml.NVML_ERROR_INVALID_ARGUMENT
    with pytest.raises(nvml.NVMLError) as stranger:
        nvml.nvmlDeviceGetName(None)
    assert stranger.value.value == nvml.NVML_ERROR_INVALID_ARGUMENT


@in_child
def test_the_sensor_knows_how_its_counter_follows_power(tmp_path: Path) -> None:
    from probe.sensors.base import SensorContext
    from probe.sensors.nvml.energy import NvmlEnergySensor

    os.environ["PROBE_CALIBRATION"] = str(tmp_path / "calibration")
    written(tmp_path / "tape", [(MonotonicClock().now_ns(), 100.0)])
    install(tmp_path / "tape")
    sensor = NvmlEnergySensor(SensorContext(requests=(DeviceRequest(devices="0"),)))
    (source,) = sensor.open()
    sensor.close()
    assert source.simulated
    assert (source.lag_s, source.delay_s) == (0.0, 0.0)
    assert not (tmp_path / "calibration").exists()


@in_child
def test_it_never_takes_the_place_of_a_library_that_is_loaded(tmp_path: Path) -> None:
    import pynvml

    from tests.fakes.nvml import NvmlRig

    NvmlRig(tmp_path).load()
    pynvml.nvmlInit()
    written(tmp_path / "tape", [(BEGIN_NS, 100.0)])
    with pytest.raises(RuntimeError, match="already"):
        install(tmp_path / "tape")


def test_a_reader_sees_what_another_process_appends(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    tape = written(path, [(BEGIN_NS, 100.0)])
    reading = processes.closed_after_test(
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from pathlib import Path; "
                "from probe.simulated_card.tape import TapeReader; "
                "tape = TapeReader(Path(sys.argv[1])); print(tape.begin_ns, flush=True); "
                "sys.stdin.readline(); print(tape.joules(int(sys.argv[2])))",
                *(str(path), str(BEGIN_NS + 3 * 10**9)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    assert reading.stdout is not None
    assert int(reading.stdout.readline()) == BEGIN_NS
    tape.write(BEGIN_NS + 10**9, 300.0)
    tape.close()
    said, _ = reading.communicate("\n", timeout=processes.HUNG_S)
    assert float(said) == pytest.approx(100 + 2 * 300)
    assert path.stat().st_size == 16 * 3


def test_a_full_tape_says_so(tmp_path: Path) -> None:
    with (tmp_path / "tape").open("xb+") as file:
        tape = TapeWriter(file, 1)
    tape.write(BEGIN_NS, 100.0)
    with pytest.raises(IndexError, match="full"):
        tape.write(BEGIN_NS + 1, 200.0)
    tape.close()
