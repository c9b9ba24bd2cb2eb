"""Raw reads at 1 ms under a random square wave, and what they say of the meters.

Is the counter continuous or part-time, late or slow? What window is a power reading the mean of?
Does reading often disturb the counter?
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from probe.attribution.columns import Columns
from probe.attribution.meter.power_updates import PowerUpdateFinder
from probe.attribution.meter.update_times import CounterUpdateFinder
from probe.attribution.meter.updates import UpdateFinder, Updates
from probe.attribution.search.search import measured
from probe.attribution.search.trial import Stretch
from probe.attribution.spans import Spans
from probe.calibrate.wave import Edge, square_wave
from probe.errors import NothingToReport
from probe.model import DeviceRequest
from probe.sensors.nvml.devices import Device, DeviceHandle, open_devices
from probe.sensors.nvml.power_readings import PowerCalls
from probe.sensors.nvml.session import Failed, Session
from probe.units import NS_PER_S

from .cards import Busy, Card

EVERY_S = 0.001
SLOW_S = 1.0
_FEWEST = 60  # updates
Table = np.ndarray[Any, np.dtype[np.float64]]


class RawReads:
    """Counter (J) and both power fields (W) by our own calls, from a thread."""

    def __init__(self, uuid: str) -> None:
        session, devices, _ = open_devices((DeviceRequest(devices=uuid),), [], [])
        self.session: Session = session
        self._device: Device = devices[0]
        self._calls = PowerCalls(session, DeviceHandle(session, self._device))
        self._counter = session.function("nvmlDeviceGetTotalEnergyConsumption")
        self._value = ctypes.c_ulonglong()

    def read(self) -> tuple[float, float, float, float, float]:
        """(monotonic s after the counter's call, its length in s, J, W instant, W average)."""
        begin_ns = time.monotonic_ns()
        joules = float("nan")
        reference = ctypes.byref(self._value)
        if self._counter is not None and not self._counter(self._device.handle, reference):
            joules = self._value.value / 1e3
        end_ns = time.monotonic_ns()
        powers = [float("nan") if isinstance(v, Failed) else v / 1e3 for v in self._calls.fields()]
        return end_ns / NS_PER_S, (end_ns - begin_ns) / NS_PER_S, joules, powers[0], powers[1]

    def during(self, work: Any, every_s: float) -> Table:
        """Rows of :meth:`read` while ``work()`` runs, (n, 5)."""
        rows: list[tuple[float, ...]] = []
        done = threading.Event()

        def poll() -> None:
            while not done.is_set():
                rows.append(self.read())
                done.wait(every_s)

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        try:
            work()
        finally:
            done.set()
            thread.join()
        return np.array(rows)

    def close(self) -> None:
        """Give the library back."""
        self.session.close()


def raw_reads(card: Card, seconds: float, record: Path) -> dict[str, Any]:
    """The stage: reads are kept in ``record``; what they say is returned."""
    reader = RawReads(card.uuid)
    edges: list[Edge] = []
    try:
        load = Busy(card.loads["matmul"])
        table = reader.during(lambda: edges.extend(square_wave(load, seconds, Random())), EVERY_S)
        disturbed = {
            name: _ratio(reader.during(lambda: card.loads["matmul"](seconds / 4), every_s))
            for name, every_s in (("1 ms", EVERY_S), ("2.5 ms", 0.0025), ("0.2 s", 0.2))
        }
        driver = reader.session.driver()
    finally:
        reader.close()
    edge_s = np.array([edge.time_ns / NS_PER_S for edge in edges])
    busy = np.array([edge.busy for edge in edges])
    np.savez_compressed(record, reads=table, edge_s=edge_s, busy=busy)
    figures: dict[str, Any] = {
        "driver": driver,
        "reads": len(table),
        "every_ms": round(1e3 * float(np.median(np.diff(table[:, 0]))), 3),
        "counter_over_power": disturbed,
    }
    for name, column, finder in (
        ("counter", 2, CounterUpdateFinder()),
        ("instant power", 3, PowerUpdateFinder()),
        ("average power", 4, PowerUpdateFinder()),
    ):
        figures[name] = _response(table, column, finder, edge_s, busy)
    return figures


def _ratio(table: Table) -> float | None:
    """The counter's slope over the mean of instant power, its ends left out."""
    middle = table[len(table) // 4 :]
    if len(middle) < 2 or not np.isfinite(middle[:, 2:4]).all():
        return None
    slope_w = (middle[-1, 2] - middle[0, 2]) / (middle[-1, 0] - middle[0, 0])
    return round(float(slope_w / middle[:, 3].mean()), 4)


def _response(
    table: Table, column: int, finder: UpdateFinder, edge_s: Table, busy: Table
) -> dict[str, Any]:
    """Period, and how the meter shows power; or why that is not known."""
    origin_s = edge_s[0]
    reads = table[np.isfinite(table[:, column])]
    if len(reads) < _FEWEST:
        return {"absent": "it has no values"}
    first = finder.feed(reads[:, 0] - origin_s, reads[:, 1], reads[:, column])
    updates = Updates.concat([first, finder.finish()])
    inside = (updates.time_s > 0.3) & (updates.time_s < edge_s[-1] - origin_s - 0.3)
    updates = updates.take(inside)
    if len(updates) < _FEWEST or updates.fresh[1:].all():
        return {"absent": f"it moved {len(updates)} times at instants that can be dated"}
    try:
        stretch = _stretch(updates, edge_s - origin_s, busy, polled=column > 2)
        response, delay_error_s, lag_error_s = measured(stretch)
    except (ValueError, np.linalg.LinAlgError) as error:
        raise NothingToReport(f"the response cannot be fitted: {error}") from None
    return {
        "period_ms": round(1e3 * stretch.period_s, 3),
        "updates": len(updates),
        "kind": str(response.kind),
        "delay_ms": [round(1e3 * response.delay_s, 2), round(1e3 * delay_error_s, 2)],
        "lag_ms": [round(1e3 * response.tau_s, 2), round(1e3 * lag_error_s, 2)],
        "window_ms": round(1e3 * response.window_s, 2),
    }


def _stretch(updates: Updates, edge_s: Table, busy: Sequence[bool], *, polled: bool) -> Stretch:
    columns = Columns()
    for code in (0, 1):
        columns.add(code, 4)
    spans = Spans(edge_s[:-1], edge_s[1:], np.where(busy[:-1], 0, 1))
    period_s = float(np.median(np.diff(updates.time_s)))
    joules = np.diff(updates.joules)
    return Stretch(updates.time_s, joules, ~updates.fresh[1:], spans, columns, period_s, polled)
