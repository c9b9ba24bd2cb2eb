"""Starting again in another environment, ranks as processes, and what a process takes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from tests.fakes import processes


def start_again(environment: dict[str, str]) -> None:
    """Replace this process by the same command with these variables, unless it has them."""
    if not environment.items() <= os.environ.items():
        os.environ.update(environment)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def keep_heap() -> None:
    """Start again with a heap that is never given back to the system (glibc, mallopt(3)).

    Else a step's page faults, some 1 µs each, depend on what ran before it: they are most of
    what two turns of the same loop differ by.
    """
    start_again(
        {
            "MALLOC_MMAP_MAX_": "0",
            "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
            "MALLOC_TOP_PAD_": str(1 << 26),
        }
    )


def under_rig(
    gpus: int, *, power_w: float = 400.0, period_s: float = 0.1, calibrated: bool = False
) -> None:
    """Start again with the tests' NVML library in front.

    ``calibrated`` also gives each GPU activity counters (GPM) and a calibration of this machine.
    """
    if "NVML_RIG" in os.environ:
        return
    from tests.fakes import nvml_calibration
    from tests.fakes.nvml import NvmlRig

    folder = Path(tempfile.mkdtemp())
    rig = NvmlRig(folder, gpus=gpus, power_w=power_w, period_s=period_s)
    environment = rig.env()
    if calibrated:
        for gpu in range(gpus):
            rig.gpu(gpu).gpm = 2
        environment = environment | nvml_calibration.calibrated(rig, folder / "calibration")
    start_again(environment)


def ranks(module: str, number: int, *arguments: str, runs: Path, **extra: str) -> str:
    """What ``number`` ranks of a module print, started by torch.distributed.run.

    Raises RuntimeError with the end of their stderr if one of them fails.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", str(number), "-m", module, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=processes.environment(runs, extra),
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    return psutil.Process(pid).memory_info().rss / 2**20


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, without its children's."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
