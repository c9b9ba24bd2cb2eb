"""Drive sensors as the recorder would, and run a test in a process of its own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from probe.clock import Clock
from probe.model import Reading
from probe.sensors import Sensor

ROOT = Path(__file__).resolve().parents[2]

_CHILD = """
import importlib.util, sys
from pathlib import Path
sys.path.insert(0, {root!r})
spec = importlib.util.spec_from_file_location("child_test", {file!r})
module = importlib.util.module_from_spec(spec)
sys.modules["child_test"] = module
spec.loader.exec_module(module)
getattr(module, {name!r}).__wrapped__(tmp_path=Path({tmp_path!r}), **{arguments!r})
"""


def in_child(test: Callable[..., None]) -> Callable[..., None]:
    """Run ``test(tmp_path, …)`` in a fresh process whose NVML is the rig's library.

    A process keeps the first libnvidia-ml.so.1 that it loads: the test process must stay
    free of the rig where a real driver is present.
    """
    from .nvml import build

    @functools.wraps(test)
    def run(tmp_path: Path, **arguments: Any) -> None:
        script = _CHILD.format(
            root=str(ROOT),
            file=test.__code__.co_filename,
            name=test.__name__,
            tmp_path=str(tmp_path),
            arguments=arguments,
        )
        env = {**os.environ, "LD_LIBRARY_PATH": str(build())}
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

    return run


def drive(sensors: Sensor | Sequence[Sensor], clock: Clock, seconds: float) -> list[Reading]:
    """Call ``read`` whenever a sensor asks for it, for ``seconds`` of the clock's time."""
    group: Iterable[Sensor] = sensors if isinstance(sensors, Sequence) else [sensors]
    readings: list[Reading] = []
    end = clock.now_ns() + round(seconds * 1e9)
    while True:
        due = min(sensor.next_read_ns() for sensor in group)
        if due >= end:
            clock.sleep((end - clock.now_ns()) / 1e9)
            return readings
        clock.sleep((due - clock.now_ns()) / 1e9)
        now = clock.now_ns()
        for sensor in group:
            if sensor.next_read_ns() <= now:
                readings.extend(sensor.read())
