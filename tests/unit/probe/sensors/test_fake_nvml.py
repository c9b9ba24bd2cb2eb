"""The NVML rig itself: the real pynvml loads it, and it tells the truth of its tape."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.fakes.nvml import Control, NvmlRig
from tests.fakes.sensor_driver import in_child


@in_child
def test_the_mirror_has_the_librarys_layout_and_names(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path)
    library = ctypes.CDLL(str(rig.library_folder / "libnvidia-ml.so.1"))
    library.rigControlSize.restype = ctypes.c_int64
    library.rigFunctionName.restype = ctypes.c_char_p
    assert library.rigControlSize() == ctypes.sizeof(Control)
    names = [library.rigFunctionName(i).decode() for i in range(len(rig.functions))]
    assert tuple(names) == rig.functions
    assert library.rigFunctionName(len(names)) is None


@in_child
def test_energy_is_the_integral_at_the_last_update(tmp_path: Path) -> None:
    import pynvml

    rig = NvmlRig(tmp_path, power_w=100.0, period_s=0.1, virtual=True)
    rig.load()
    clock = rig.clock()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    start = clock.now_ns()
    rig.set_power(0, 300.0, start + 500_000_000)
    before = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    clock.sleep(1.05)
    after = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    assert (after - before) / 1e3 == pytest.approx(0.5 * 100 + 0.5 * 300, abs=0.01)
    assert rig.true_energy_j(0, start, start + 1_000_000_000) == pytest.approx(200.0)
    assert rig.updates(0, start + 1, start + 250_000_000) == [
        start + 100_000_000,
        start + 200_000_000,
    ]
    assert pynvml.nvmlDeviceGetFieldValues(handle, [185])[0].value.uiVal == pytest.approx(
        1e3 * (0.45 * 100 + 0.55 * 300), abs=2
    )


@in_child
def test_failures_by_time_by_call_and_by_device(tmp_path: Path) -> None:
    import pynvml

    rig = NvmlRig(tmp_path, gpus=2, virtual=True)
    rig.load()
    pynvml.nvmlInit()
    first, second = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(2))
    rig.fail("nvmlDeviceGetPowerUsage", 999, gpu=0, after_calls=1)
    assert pynvml.nvmlDeviceGetPowerUsage(first) == 250_000
    with pytest.raises(pynvml.NVMLError) as error:
        pynvml.nvmlDeviceGetPowerUsage(first)
    assert error.value.value == 999
    assert pynvml.nvmlDeviceGetPowerUsage(second) == 250_000
    rig.clear()
    rig.lose(1, at_ns=rig.now_ns() + 1_000_000_000)
    assert pynvml.nvmlDeviceGetPowerUsage(second) == 250_000
    rig.clock().sleep(1)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetPowerUsage(second)
    assert rig.calls("nvmlDeviceGetPowerUsage", 1) == 3


def test_another_process_sees_the_same_device(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, hide=("nvmlDeviceGetPowerUsage",))
    script = (
        "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
        "print(n.nvmlDeviceGetUUID(h))\n"
        "try: n.nvmlDeviceGetPowerUsage(h)\n"
        "except n.NVMLError_FunctionNotFound: print('absent')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **rig.env()},
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=True,
    )
    assert done.stdout.split() == [rig.uuid(0), "absent"]
    assert rig.calls("nvmlDeviceGetUUID") == 1
    workload = NvmlRig.attach(rig.path)
    workload.set_power(0, 500.0)
    end = time.monotonic_ns() + 2_000_000_000
    assert rig.true_energy_j(0, end - 1_000_000_000, end) == pytest.approx(500.0)
