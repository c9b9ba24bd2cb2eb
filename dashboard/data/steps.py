"""Single steps, and the cost of a step over the training."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import ruptures
from scipy.ndimage import median_filter

from probe.model import Kind
from probe.ring.layout import Code
from probe.store.reader import Rings
from probe.store.steps import StepTimes
from probe.timeline.device_times import on_device
from probe.timeline.span_table import SpanTable
from probe.timeline.spans import decode

from ..chart_data import MEASURED, Anatomy, Drift, Floats, Lane
from .power import main_meters, power, read_all
from .power_bins import knots
from .run import OpenRun

STEPS = 3  # shown in a chart
_RANKS = 4
_WIDEST_S = 120.0
_BLOCKS = 240
_UPDATES = 10  # of the meter in a block, or its ends are all there is
_SHORTEST = 6  # points of a level: fewer are an episode
_CHANGE = 0.02  # smaller changes of the level are not reported


def anatomy(run: OpenRun, at_s: float, step_s: float) -> Anatomy | None:
    """The steps that closed next after ``at_s``; None if none did near it.

    Args:
        step_s: about how long one takes.
    """
    reader = run.reader
    ranks = reader.ranks()
    if not ranks:
        return None
    centre = reader.begin_ns + int(at_s * 1e9)
    width_s = max(0.05, (STEPS + 3) * step_s)
    while True:
        window = centre - int(width_s * 1e9), centre + int(width_s * 1e9)
        rings = reader.rings_between(ranks[0], *window)
        lanes = _lanes(run, ranks[0], rings)
        shown = _steps(lanes, centre) if lanes else None
        if shown is not None or width_s > _WIDEST_S:
            break
        width_s *= 4
    if shown is None:
        return None
    first, closed = shown
    for rank in ranks[1:_RANKS]:
        lanes += _lanes(run, rank, reader.rings_between(rank, *window))
    low, high = float(closed[0]), float(closed[-1])
    begin_s = reader.begin_ns / 1e9
    cut = [_cut(name, table, names, low, high, begin_s) for name, table, names in lanes]
    times = (closed - reader.begin_ns) / 1e9
    measured = [
        meter.source.device
        for meter in main_meters(run.meters())
        if meter.source.provenance.value == MEASURED
    ]
    watts = power(run, (float(times[0]), float(times[-1])), measured, 120) if measured else None
    return Anatomy(first, times, [lane for lane in cut if len(lane.begin_s)], watts)


_Spans = tuple[str, SpanTable, dict[int, str]]


def _lanes(run: OpenRun, rank: int, rings: Rings) -> list[_Spans]:
    """The phases of a rank on the host's clock, and on the device's where it has one."""
    lanes: list[_Spans] = []
    mains = [(name, rows) for name, rows in rings if name.startswith("main") and len(rows)]
    others = [rows for name, rows in rings if not name.startswith("main")]
    for name, rows in mains[:1]:
        names = run.reader.names(rank, name)
        lanes.append((f"rank {rank}, host", decode(rows, others), names))
        moved = on_device(rows)
        if moved is not None and len(moved):
            lanes.append((f"rank {rank}, GPU", decode(moved, others), names))
    return lanes


def _steps(lanes: list[_Spans], centre: int) -> tuple[int, Floats] | None:
    """(number of the first step, its and the next steps' closing times) near ``centre``."""
    table = lanes[0][1]
    new = np.flatnonzero(np.diff(table.step) > 0) + 1
    closed = table.begin_ns[new]
    if len(closed) < 2:
        return None
    first = int(np.clip(np.searchsorted(closed, centre) - 1, 0, len(closed) - 2))
    last = min(len(closed) - 1, first + STEPS)
    return int(table.step[new[first]]), closed[first : last + 1].astype(np.float64)


def _cut(
    name: str, table: SpanTable, names: dict[int, str], low: float, high: float, begin_s: float
) -> Lane:
    keep = (table.end_ns > low) & (table.begin_ns < high) & (table.code != Code.OUTSIDE)
    inside = table.take(keep)
    return Lane(
        name,
        np.maximum(inside.begin_ns, low) / 1e9 - begin_s,
        np.minimum(inside.end_ns, high) / 1e9 - begin_s,
        [names.get(int(code), "other") for code in inside.code],
    )


def drift(run: OpenRun, times: StepTimes) -> Drift | None:
    """Energy per step over blocks of steps, of all meters together; else time per step.

    Returns:
        None with fewer than 8 steps.
    """
    steps = times.read()
    closed, every = steps.time_ns, steps.every
    if len(closed) < 8:
        return None
    low, high = int(closed[0]), int(closed[-1])
    meters = [
        meter for meter in main_meters(run.meters()) if meter.source.provenance.value == MEASURED
    ]
    gaps = run.reader.gaps()
    curves = []
    reads = read_all(meters, low, high)
    for meter in meters:
        read = reads.get(id(meter))
        if read is None or meter.source.kind is not Kind.COUNTER:
            continue
        at, joules = knots(meter.source, read, gaps)
        if len(at) > 2 * _UPDATES:
            curves.append((at, joules))
    apart_ns = max((float(np.median(np.diff(at))) for at, _ in curves), default=0.0)
    mean_ns = (high - low) / (len(closed) - 1)
    size = max(
        1, int(np.ceil((len(closed) - 1) / _BLOCKS)), int(np.ceil(_UPDATES * apart_ns / mean_ns))
    )
    if (len(closed) - 1) // size < 4:
        curves, size = [], max(1, int(np.ceil((len(closed) - 1) / _BLOCKS)))
    ends = closed[::size].astype(np.float64)
    size *= every
    middle: Floats = np.arange(len(ends) - 1, dtype=np.float64) * size + size / 2
    if curves and len(curves) == len(meters):
        joules_at = np.sum([np.interp(ends, at, joules) for at, joules in curves], axis=0)
        value: Floats = np.diff(joules_at) / size
        watts = float(np.diff(joules_at).sum() / ((ends[-1] - ends[0]) / 1e9))
        # Each end of a block is known to an update period, evenly: 1.96·√2/√12 of its energy.
        half = 0.8 * apart_ns / 1e9 * watts / size
        series = Drift(middle, value, value - half, value + half, "J", size, (), "estimated")
    else:
        value = np.diff(ends) / 1e9 / size
        each = np.diff(closed) / 1e9 / every
        apart = size // every
        blocks = [each[i * apart : (i + 1) * apart] for i in range(len(value))]
        series = Drift(
            middle,
            value,
            np.array([np.quantile(b, 0.05) for b in blocks]),
            np.array([np.quantile(b, 0.95) for b in blocks]),
            "s",
            size,
            (),
            MEASURED,
        )
    return replace(series, changes=changes(series.value))


def changes(value: Floats) -> list[int]:
    """Places where the level of a series changes for good.

    PELT with a linear kernel (Killick et al. 2012), from ``ruptures``. Single outliers (a step that
    saved a snapshot) are clipped to the level around them first; the noise is estimated from the
    differences of neighbours.
    """
    if len(value) < 4 * _SHORTEST or not np.isfinite(value).all():
        return []
    usual = median_filter(value, 2 * _SHORTEST - 1, mode="nearest")
    noise = float(np.median(np.abs(np.diff(value)))) / 0.9539  # of a difference of two normals
    level = float(np.median(np.abs(value))) or 1.0
    noise = max(noise, 1e-3 * level)
    clipped = np.clip(value, usual - 2 * noise, usual + 2 * noise)
    penalty = 8.0 * np.log(len(clipped)) * noise**2
    shortest = max(_SHORTEST, len(clipped) // 10)  # a start that settles is no new level
    detector = ruptures.KernelCPD(kernel="linear", min_size=shortest).fit(clipped)
    ends = detector.predict(pen=penalty)
    levels = [float(np.median(value[a:b])) for a, b in pairwise([0, *ends])]
    return [
        end
        for end, before, after in zip(ends[:-1], levels, levels[1:], strict=False)
        if abs(after - before) > max(_CHANGE * level, noise)
    ]
