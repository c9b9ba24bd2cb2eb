"""What goes wrong in a virtual day: a GPU is lost, a disk is full, a recorder is replaced."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from probe.model import RunStatus
from probe.recorder.spawn import claim
from probe.store.reader import RunReader
from tests.fakes.virtual_run import VirtualRun

LONGEST_S = 600.0
# Whatever the recorder writes with.
WRITES = (
    "probe.store.segments.SegmentWriter.write",
    "probe.store.files.open_new",
    "probe.store.new_files.open_temporary",
    "probe.recorder.pipeline.storage.open_to_append",
)


class Faults:
    """Eight times the GPU is lost, six times the disk is full, three recorders are replaced."""

    def __init__(self, run: VirtualRun, seconds: float):
        """Plan them; the run must not have begun."""
        self._run = run
        self.lost = self.full = False
        self.counts = {"gpu_lost": 0, "disk_full": 0, "recorder_replaced": 0}
        self._epoch = 1
        length_s = min(LONGEST_S, seconds / 48)
        for place in range(8):
            self._spell("gpu_lost", "lost", seconds * (place + 0.3) / 8, length_s)
        for place in range(6):
            self._spell("disk_full", "full", seconds * (place + 0.6) / 6, length_s)
        for place in range(3):
            run.clock.call_after(seconds * (place + 0.8) / 4, self._replace)
        self._lose_with(run._sensor)

    def _spell(self, kind: str, flag: str, at_s: float, length_s: float) -> None:
        def begin() -> None:
            setattr(self, flag, True)
            self.counts[kind] += 1

        self._run.clock.call_after(at_s, begin)
        self._run.clock.call_after(at_s + length_s, lambda: setattr(self, flag, False))

    def _replace(self) -> None:
        self._epoch += 1
        self.counts["recorder_replaced"] += 1
        self.full = False  # a new one could not claim its lease
        claim(self._run.path, self._epoch)

    def _lose_with(self, sensor: Any) -> None:
        read = sensor.read

        def may_read(sensor_: Any) -> Any:
            if self.lost:
                raise RuntimeError("NVML: GPU is lost")
            return read(sensor_)

        sensor.read = may_read

    @contextlib.contextmanager
    def disk(self) -> Iterator[None]:
        """Writing fails while the disk is full."""

        def may_fail(function: Callable[..., Any]) -> Callable[..., Any]:
            def act(*args: Any, **named: Any) -> Any:
                if self.full:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return function(*args, **named)

            return act

        with contextlib.ExitStack() as patched:
            for name in WRITES:
                patcher = mock.patch(name)
                function, _ = patcher.get_original()
                patched.enter_context(mock.patch(name, may_fail(function)))
            yield

    def record(self) -> None:
        """One recorder after the other, until the run has ended."""
        epoch = 1
        with self.disk():
            while True:
                self._run.record(epoch)
                if RunReader(self._run.path).meta["status"] != RunStatus.RUNNING:
                    return
                epoch += 1
                self._run.clock.drop_sensors()
                self._run.clock.sleep(1.5)
