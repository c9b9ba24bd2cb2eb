"""A run as tracks over time: phases and steps per rank, power, memory and activity per device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from probe.analysis.open import open_samples
from probe.timeline.rank_timeline import Timeline, timeline

from .run import ExportRefused, StoredRun

Times = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_SLICES = 400_000  # viewers do not open more
_COUNTERS = {
    "memory_used": "B",
    "sm_activity": "",
    "tensor_activity": "",
    "dram_activity": "",
    "utilization": "",
    "temperature": "Cel",
    "sm_clock": "Hz",
}


@dataclass(frozen=True, slots=True)
class Slices:
    """Intervals that follow each other, with names; times are monotonic ns."""

    group: str  # rank 0
    track: str  # phases, steps, phases (device)
    begin_ns: Times
    end_ns: Times
    name: list[str]


@dataclass(frozen=True, slots=True)
class Levels:
    """A value over time; each holds until the next."""

    group: str  # gpu0
    track: str  # power
    unit: str
    time_ns: Times
    value: Floats


@dataclass(frozen=True, slots=True)
class Tracks:
    """All of a run, or of some of its steps."""

    slices: list[Slices]
    levels: list[Levels]
    begin_ns: int
    end_ns: int


def tracks(run: StoredRun, steps: str) -> Tracks:
    """A run as tracks over time.

    Args:
        steps: ``all``, or ``100:200``.

    Raises:
        ExportRefused: no such steps, or too many slices for a viewer.
    """
    reader = run.reader
    timelines = [
        (rank, host, timeline(reader, rank, device=True))
        for rank in reader.ranks()
        if (host := timeline(reader, rank)) is not None
    ]
    begin, end = reader.begin_ns, reader.end_ns()
    if steps != "all":
        begin, end = _range(steps, [host for _, host, _ in timelines], begin)
    slices = []
    for rank, host, device in timelines:
        group = f"rank {rank}"
        slices.append(_phases(group, "phases", host.part(begin, end)))
        if device is not None:
            slices.append(_phases(group, "phases on the device", device.part(begin, end)))
        for number, thread in enumerate(host.threads, 2):
            slices.append(_phases(group, f"phases of thread {number}", thread.part(begin, end)))
        if len(host.step_ns):
            slices.append(_steps(group, host, begin, end))
    number = sum(len(s.name) for s in slices)
    if number > MOST_SLICES:
        raise ExportRefused(
            f"{number} slices are more than a viewer opens: choose steps, for "
            "example --set steps=100:200"
        )
    return Tracks(slices, [levels for levels in _levels(run) if len(levels.time_ns)], begin, end)


def _range(steps: str, hosts: list[Timeline], begin_ns: int) -> tuple[int, int]:
    first, sign, last = steps.partition(":")
    try:
        a, b = int(first), int(last)
    except ValueError:
        a = b = -1
    recorded = max((len(host.step_ns) for host in hosts), default=0)  # of one thread each
    if not sign or not 0 <= a < b:
        raise ExportRefused(f"steps={steps!r}: write `all` or for example 100:200")
    if a >= recorded:
        raise ExportRefused(f"steps={steps}: the run has {recorded} steps")
    closed = next(host.step_ns for host in hosts if len(host.step_ns) == recorded)
    return (int(closed[a - 1]) if a else begin_ns), int(closed[min(b, recorded) - 1])


def _phases(group: str, track: str, phases: Timeline) -> Slices:
    return Slices(
        group,
        track,
        phases.begin_ns,
        phases.end_ns,
        [phases.name(code) for code in phases.code.tolist()],
    )


def _steps(group: str, host: Timeline, begin_ns: int, end_ns: int) -> Slices:
    closed = host.step_ns
    first = int(host.begin_ns[0])
    opened = np.concatenate([[first], closed[:-1]])
    keep = (opened >= begin_ns) & (closed <= end_ns) if begin_ns > first else closed <= end_ns
    names = [f"step {number}" for number in np.flatnonzero(keep).tolist()]
    return Slices(group, "steps", opened[keep], closed[keep], names)


def _levels(run: StoredRun) -> Iterator[Levels]:
    analysis = open_samples(run.reader)
    for device in analysis.devices:
        curve = device.curve
        if curve is not None and len(curve.time_ns) > 1:
            seconds = np.diff(curve.time_ns) / 1e9
            watts = np.diff(curve.joules) / np.maximum(seconds, 1e-9)
            label = "power" if device.source.provenance == "measured" else "power (model)"
            yield Levels(device.name, label, "W", curve.time_ns[:-1], watts)
    for series in analysis.series:
        source = series.source
        if source.quantity in _COUNTERS:
            unit = _COUNTERS[source.quantity]
            yield Levels(source.device, source.quantity, unit, series.time_ns, series.value)
