"""One sensor: open it, read it when it wants to be read, keep the readings until collected.

The loop is a generator that yields how long to wait. In production a thread of its own runs it
(:func:`run_in_thread`); tests run all loops in one thread, in order of virtual time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from ...errors import SensorUnavailable
from ...model import Absence, Gap, Reading, Source
from ...sensors import Sensor, SensorContext

_LONGEST_WAIT_S = 1.0
_NAP_S = 0.1  # so long the end of the run may wait: an event with a deadline costs 40 us more
_RETRY_S = 1.0  # after a read that failed
_OPEN_AGAIN_S = (1.0, 10.0, 60.0)  # after an error while it was opened
_MOST_WARNINGS = 20


class SensorLoop:
    """Drives one sensor until :meth:`stop`; the recorder collects with :meth:`take`.

    Whatever the sensor does, the loop survives it: an exception becomes a Gap
    and a warning, and reading goes on at the sensor's next time. One that fails
    while it is opened is opened again, three times.
    """

    def __init__(self, kind: type[Sensor], context: SensorContext):
        self.name = kind.name
        self.clock = context.clock
        self.sources: Sequence[Source] = ()
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self.opened = threading.Event()
        self.stopping = threading.Event()
        self._kind, self._context = kind, context
        self._failed = False  # opening it, by an error that may pass
        self._readings: list[Reading] = []
        self._lock = threading.Lock()

    def take(self) -> list[Reading]:
        """The readings since the last call."""
        with self._lock:
            taken, self._readings = self._readings, []
        return taken

    def stop(self) -> None:
        """Ask the loop to read once more and close the sensor; does not wait."""
        self.stopping.set()

    def steps(self) -> Iterator[float]:
        """The loop itself: yields the seconds to wait, less if :attr:`stopping` is set."""
        sensor = self._open()
        self.opened.set()
        for wait_s in _OPEN_AGAIN_S:
            if sensor is not None or not self._failed:
                break
            yield wait_s
            if self.stopping.is_set():
                return
            sensor = self._open()
        if sensor is None:
            return
        try:
            while not self.stopping.is_set():
                wait_s = (sensor.next_read_ns() - self.clock.now_ns()) / 1e9
                yield min(wait_s, _LONGEST_WAIT_S)
                if self.stopping.is_set() or wait_s > _LONGEST_WAIT_S:
                    continue
                if not self._read(sensor):
                    yield _RETRY_S
        finally:
            self._read(sensor)
            sensor.close()

    def _open(self) -> Sensor | None:
        """The sensor, opened; None if it is not there, or failed for now."""
        sensor = self._kind(self._context)
        self._failed = False
        try:
            sources = tuple(sensor.open())
        except SensorUnavailable as error:
            absence = Absence(
                sensor=self.name, what=self.name, reason=error.reason, remedy=error.remedy
            )
            self.absent = [*sensor_absences(sensor), absence]
            return None
        except Exception as error:
            self._failed = True
            reason = f"{type(error).__name__}: {error}"
            self.absent = [Absence(sensor=self.name, what=self.name, reason=reason)]
            with contextlib.suppress(Exception):
                sensor.close()
            return None
        self.absent = sensor_absences(sensor)
        self.warnings = sensor.warnings
        self.sources = sources
        return sensor

    def _read(self, sensor: Sensor) -> bool:
        """Whether the sensor could be read."""
        begin = self.clock.now_ns()
        why = ""
        try:
            readings = list(sensor.read())
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            readings = [Gap(self.name, begin, self.clock.now_ns(), why)]
            if len(self.warnings) < _MOST_WARNINGS:
                self.warnings.append(f"sensor {self.name}: {why}")
        if readings:
            with self._lock:
                self._readings += readings
        return not why


Join = Callable[[float], bool]
"""Wait so many seconds for a loop's end; False if its sensor hangs in a call."""


def run_in_thread(loop: SensorLoop) -> Join:
    """Start a daemon thread that runs the loop."""

    def run() -> None:
        for wait_s in loop.steps():
            if wait_s > _NAP_S:
                loop.clock.wait_event(loop.stopping, wait_s)
            else:
                loop.clock.sleep(wait_s)

    thread = threading.Thread(target=run, name=f"sensor-{loop.name}", daemon=True)
    thread.start()

    def join(seconds: float) -> bool:
        thread.join(seconds)
        return not thread.is_alive()

    return join


def sensor_absences(sensor: Sensor) -> list[Absence]:
    """What the sensor says is missing; tolerant of one that does not say."""
    return list(getattr(sensor, "absent", ()) or ())
