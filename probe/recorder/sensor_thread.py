"""One thread per sensor: open, read when it wants to be read, hand the readings over."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ..clock import Clock
from ..errors import SensorUnavailable
from ..model import Absence, Gap, Reading, Source
from ..sensors import Sensor, SensorContext

_LONGEST_WAIT_S = 1.0
_NAP_S = 0.1  # so long the end of the run may wait: an event with a deadline costs 40 us more


class SensorThread:
    """Runs one sensor until :meth:`stop`; the recorder collects with :meth:`take`.

    Whatever the sensor does, the thread survives it: an exception becomes a Gap
    and a warning, and reading goes on at the sensor's next time.
    """

    def __init__(self, kind: type[Sensor], context: SensorContext):
        self.name = kind.name
        self.sources: Sequence[Source] = ()
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self.opened = threading.Event()
        self._kind, self._context, self._clock = kind, context, context.clock
        self._readings: list[Reading] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sensor-{self.name}", daemon=True)
        self._thread.start()

    def take(self) -> list[Reading]:
        """The readings since the last call."""
        with self._lock:
            taken, self._readings = self._readings, []
        return taken

    def stop(self) -> None:
        """Ask the thread to close the sensor; does not wait."""
        self._stop.set()

    def join(self, seconds: float) -> bool:
        """Wait for the end; False if the sensor hangs in a call."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        sensor = self._kind(self._context)
        try:
            sources = sensor.open()
        except SensorUnavailable as error:
            self.absent = [
                *sensor_absences(sensor),
                Absence(sensor=self.name, what=self.name, reason=error.reason, remedy=error.remedy),
            ]
            self.opened.set()
            return
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self.absent = [Absence(sensor=self.name, what=self.name, reason=reason)]
            self.opened.set()
            return
        self.sources, self.absent = tuple(sources), list(sensor_absences(sensor))
        self.warnings = sensor.warnings
        self.opened.set()
        try:
            while not self._stop.is_set():
                wait = (sensor.next_read_ns() - self._clock.now_ns()) / 1e9
                if wait > _NAP_S:
                    if self._stop.wait(min(wait, _LONGEST_WAIT_S)) or wait > _LONGEST_WAIT_S:
                        continue
                else:
                    self._clock.sleep(wait)
                self._read(sensor)
        finally:
            self._read(sensor)
            sensor.close()

    def _read(self, sensor: Sensor) -> None:
        begin = self._clock.now_ns()
        try:
            readings = list(sensor.read())
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            readings = [Gap(self.name, begin, self._clock.now_ns(), why)]
            if len(self.warnings) < 20:
                self.warnings.append(f"sensor {self.name}: {why}")
            self._stop.wait(1.0)
        if readings:
            with self._lock:
                self._readings += readings


def sensor_absences(sensor: Sensor) -> list[Absence]:
    """What the sensor says is missing; tolerant of one that does not say."""
    return list(getattr(sensor, "absent", ()) or ())


__all__ = ["Clock", "SensorThread"]
