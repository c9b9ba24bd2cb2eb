"""Drive sensors as the recorder would, and run a test in a process of its own."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from probe.clock import Clock
from probe.model import Reading
from probe.sensors import Sensor

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600.0


def in_child(test: Callable[..., None]) -> Callable[..., None]:
    """Run ``test(tmp_path, …)`` in a fresh process whose NVML is the rig's library.

    A process keeps the first libnvidia-ml.so.1 that it loads: the test process must stay
    free of the rig where a real driver is present.
    """

    @functools.wraps(test)
    def run(tmp_path: Path, **arguments: Any) -> None:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        name = (test.__module__, test.__qualname__)
        child = _fork_server().Process(target=_call, args=(sender, *name, tmp_path, arguments))
        child.start()
        sender.close()
        try:
            outcome, text = receiver.recv() if receiver.poll(TIMEOUT_S) else ("failed", "timed out")
        except EOFError:
            child.join()
            outcome, text = "failed", f"the child ended with {child.exitcode}"
        finally:
            receiver.close()
            child.kill()
            child.join()
        if outcome == "skipped":
            pytest.skip(text)
        if outcome == "failed":
            pytest.fail(text, pytrace=False)

    return run


@functools.cache
def _fork_server() -> ForkServerContext:
    """One process with the rig's library on its path and our imports done; each test is a fork."""
    from multiprocessing import forkserver

    from .nvml import build

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "pynvml", __name__, "probe.sensors"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(build()))
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        patch.delenv("PYTEST_CURRENT_TEST", raising=False)  # it outlives this test
        forkserver.ensure_running()
    return context


def _call(
    sender: Connection, module: str, name: str, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    """Run one test, say how it ended."""
    try:
        getattr(importlib.import_module(module), name).__wrapped__(tmp_path=tmp_path, **arguments)
    except pytest.skip.Exception as skipped:
        sender.send(("skipped", str(skipped)))
    except BaseException:
        sender.send(("failed", traceback.format_exc()))
    else:
        sender.send(("passed", ""))


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
