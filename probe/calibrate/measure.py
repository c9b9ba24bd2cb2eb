"""Read the meters while the load switches, and fit how they see it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from ..attribution.columns import Columns
from ..attribution.meter.update_times import CounterUpdateFinder
from ..attribution.meter.updates import Updates
from ..attribution.response.response import Kind, Response
from ..attribution.search.search import measured
from ..attribution.search.trial import Stretch
from ..attribution.spans import Spans
from ..clock import MonotonicClock
from ..errors import NothingToReport, SensorUnavailable
from ..model import DeviceRequest, Reading, Sample
from ..sensors import SensorContext
from ..sensors.nvml.calibration import Calibration
from ..sensors.nvml.devices import Device, DeviceHandle, open_devices
from ..sensors.nvml.energy import NvmlEnergySensor
from ..sensors.nvml.power_readings import FIELD_AVERAGE, FIELD_INSTANT, PowerCalls
from ..sensors.nvml.session import Failed, Session, attempt
from ..units import NS_PER_S
from .wave import Edge, Load, square_wave

Floats = npt.NDArray[np.float64]

SECONDS = 20.0
_SETTLE_S = 2.0  # the reader finds the counter's lattice
_FIELD_EVERY_S = 0.005
_WINDOWS_S = (0.001, 0.005, 0.01, 0.02, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0)
_SLICES = 4  # of each turn: clocks ramp
_BUSY, _IDLE = 0, 1


@dataclass
class _Reader:
    """Reads one card's meters on two threads until it is stopped."""

    sensor: NvmlEnergySensor
    calls: PowerCalls
    readings: list[Reading] = field(default_factory=list)
    fields: list[tuple[int, float | None, float | None]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> list[threading.Thread]:
        threads = [threading.Thread(target=read, daemon=True) for read in (self._count, self._poll)]
        for thread in threads:
            thread.start()
        return threads

    def stop(self, threads: Sequence[threading.Thread]) -> None:
        self._stop.set()
        for thread in threads:
            thread.join()

    def _count(self) -> None:
        while not self._stop.is_set():
            self.readings += self.sensor.read()
            wait = (self.sensor.next_read_ns() - time.monotonic_ns()) / NS_PER_S
            if wait > 0:
                time.sleep(wait)

    def _poll(self) -> None:
        while not self._stop.wait(_FIELD_EVERY_S):
            instant, average = (None if isinstance(v, Failed) else v for v in self.calls.fields())
            self.fields.append((time.monotonic_ns(), instant, average))


def measure(
    uuid: str,
    load: Load,
    seconds: float = SECONDS,
    seed: int | None = None,
    record: Path | None = None,
) -> Calibration:
    """Calibrate one card.

    Args:
        load: what keeps this card busy.
        seconds: how long the wave lasts.
        record: a .npz file that keeps all that was read, and the load's edges.

    Raises:
        NothingToReport: the card has no energy counter, or it hardly moved.
        OSError: the record cannot be written.
    """
    request = DeviceRequest(devices=uuid)
    sensor = NvmlEnergySensor(SensorContext(requests=(request,), clock=MonotonicClock()))
    try:
        source = next(iter(sensor.open()))
    except SensorUnavailable as error:
        raise NothingToReport(f"{uuid}: {error.reason}") from None
    session, devices, _ = open_devices((request,), [], [])
    device = devices[0]
    reader = _Reader(sensor, PowerCalls(session, DeviceHandle(session, device)))
    threads = reader.start()
    try:
        time.sleep(_SETTLE_S)
        edges = list(square_wave(load, seconds, Random(seed)))
        time.sleep(0.5)
    finally:
        reader.stop(threads)
        sensor.close()
        driver, clock = session.driver(), _fields_clock(session, device)
        session.close()
    samples = [r for r in reader.readings if isinstance(r, Sample) and r.source == source.id]
    origin_ns = edges[0].time_ns
    if record is not None:
        keep_reads(record, samples, source.scale, reader.fields, edges)
    updates = _updates(samples, origin_ns, source.scale)
    response, errors = _fit(updates, edges, origin_ns)
    gaps = np.diff(updates.time_s)
    period = float(np.median(gaps)) if len(gaps) else 0.0
    usual = gaps[np.abs(gaps / period - 1) < 0.3]
    windows = [_window(reader.fields, column, edges) for column in (1, 2)]
    return Calibration(
        uuid=uuid,
        name=device.name,
        driver=driver,
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        lag_s=response.tau_s,
        lag_error_s=errors[1],
        delay_s=response.delay_s,
        delay_error_s=errors[0],
        average_s=response.window_s if response.kind is Kind.AVERAGE else None,
        part_s=response.part_s if response.kind is Kind.PART_TIME else None,
        counter_period_s=float(usual.mean()),
        counter_jitter_s=float(usual.std()),
        counter_read_s=float(np.median([s.span_ns for s in samples])) / NS_PER_S,
        instant_period_s=windows[0][0],
        instant_window_s=windows[0][1],
        average_period_s=windows[1][0],
        average_window_s=windows[1][1],
        fields_clock=clock,
    )


def keep_reads(
    file: Path,
    samples: Sequence[Sample],
    scale: float,
    fields: Sequence[tuple[int, float | None, float | None]],
    edges: Sequence[Edge],
) -> None:
    """Keep raw reads: seconds since the first edge, joules, milliwatts (not a number: no reading).

    Raises:
        OSError: the file cannot be written.
    """
    origin_ns = edges[0].time_ns

    def seconds(times: list[int]) -> Floats:
        return (np.array(times, np.int64) - origin_ns) / NS_PER_S

    def milliwatts(column: int) -> Floats:
        return np.array([row[column] for row in fields], np.float64)  # None is not a number

    with file.open("wb") as stream:
        np.savez_compressed(
            stream,
            counter_s=seconds([s.time_ns for s in samples]),
            counter_span_s=np.array([s.span_ns for s in samples]) / NS_PER_S,
            counter_j=np.array([s.value for s in samples]) * scale,
            read_s=seconds([row[0] for row in fields]),
            instant_mw=milliwatts(1),
            average_mw=milliwatts(2),
            edge_s=seconds([edge.time_ns for edge in edges]),
            busy=np.array([edge.busy for edge in edges]),
        )


def _updates(samples: Sequence[Sample], origin_ns: int, scale: float) -> Updates:
    lattice = CounterUpdateFinder()
    table = np.array([(s.time_ns - origin_ns, s.span_ns, s.value) for s in samples], np.float64)
    if not len(table):
        return lattice.finish()
    first = lattice.feed(table[:, 0] / NS_PER_S, table[:, 1] / NS_PER_S, table[:, 2] * scale)
    return Updates.concat([first, lattice.finish()])


def _fit(
    updates: Updates, edges: Sequence[Edge], origin_ns: int
) -> tuple[Response, tuple[float, float]]:
    """(response, errors of its delay and its lag or window in s)."""
    at = np.array([(edge.time_ns - origin_ns) / NS_PER_S for edge in edges])
    busy = np.array([edge.busy for edge in edges])
    spans = Spans(at[:-1], at[1:], np.where(busy[:-1], _BUSY, _IDLE))
    inside = (updates.time_s > at[0] + 0.3) & (updates.time_s < at[-1] - 0.3)
    updates = updates.take(inside)
    if len(updates) < 40:
        raise NothingToReport(
            f"the energy counter moved only {len(updates)} times: a longer --seconds may do"
        )
    columns = Columns()
    for code in (_BUSY, _IDLE):
        columns.add(code, _SLICES)
    stretch = Stretch(
        updates.time_s,
        np.diff(updates.joules),
        ~updates.fresh[1:],
        spans,
        columns,
        float(np.median(np.diff(updates.time_s))),
    )
    response, delay_error_s, lag_error_s = measured(stretch)
    return response, (delay_error_s, lag_error_s)


def _window(
    fields: Sequence[tuple[int, float | None, float | None]], column: int, edges: Sequence[Edge]
) -> tuple[float | None, float | None]:
    """(update period, averaging window) of a power field; None where it has no values."""
    read = [(row[0], row[column]) for row in fields if row[column] is not None]
    if len(read) < 100:
        return None, None
    time_ns = np.array([t for t, _ in read], np.int64)
    value = np.array([v for _, v in read], np.float64)
    changed = np.flatnonzero(np.diff(value)) + 1
    if len(changed) < 20:
        return None, None
    period = float(np.median(np.diff(time_ns[changed]))) / NS_PER_S
    # A new value describes the time up to about the read that found it.
    at = (time_ns[changed] + time_ns[changed - 1]) / 2
    corner = np.array([edge.time_ns for edge in edges], np.float64)
    spent = np.concatenate([[0.0], np.cumsum(np.diff(corner) * [e.busy for e in edges[:-1]])])
    inside = (at - max(_WINDOWS_S) * NS_PER_S > corner[0]) & (at < corner[-1])
    if np.count_nonzero(inside) < 20:
        return period, None
    at, seen = at[inside], value[changed][inside]

    def left(window_s: float) -> float:
        """What a mean over this window does not explain."""
        begin = at - window_s * NS_PER_S
        share = (np.interp(at, corner, spent) - np.interp(begin, corner, spent)) / (at - begin)
        design = np.stack([share, np.ones_like(share)], axis=1)
        return float(np.sum((seen - design @ np.linalg.lstsq(design, seen, rcond=None)[0]) ** 2))

    return period, min(_WINDOWS_S, key=left)


def _fields_clock(session: Session, device: Device) -> str | None:
    """Which clock nvmlDeviceGetFieldValues stamps with, if it is a known one."""

    def stamp() -> Any:
        return session.nvml.nvmlDeviceGetFieldValues(device.handle, [FIELD_INSTANT, FIELD_AVERAGE])[
            0
        ].timestamp

    stamp_us = attempt(stamp)
    if isinstance(stamp_us, Failed):
        return None
    clocks = {
        "wall clock": time.time_ns(),
        "time since boot": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "monotonic clock": time.monotonic_ns(),
    }
    near = {name: abs(now / 1e3 - int(stamp_us)) for name, now in clocks.items()}
    name = min(near, key=near.__getitem__)
    return name if near[name] < 2e6 else None
