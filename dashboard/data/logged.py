"""What ``run.log`` recorded, over steps, samples, time and joules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from tsdownsample import MinMaxLTTBDownsampler

from probe.ring.layout import LOADED
from probe.store.loaded_samples import COUNTS, with_loaded_samples

from ..chart_data import MEASURED, MODELLED, Floats, LoggedSeries
from .cache import cached
from .logged_values import Ints, in_order
from .power import POINTS, main_meters, read_all
from .power_bins import knots
from .run import OpenRun

Values = Mapping[str, tuple[Ints, Floats]]  # name → (ns, value)


@cached
def logged(run: OpenRun) -> Values:
    """What the job logged: as its first rank did, but counts are those of all ranks."""
    reader = run.reader
    steps = len(run.step_times().read().time_ns)
    of_job: dict[str, tuple[Ints, Floats]] = {}
    for place, rank in enumerate(reader.ranks()):
        values = with_loaded_samples(
            run.logged_values(rank), lambda of_rank: len(of_rank[0]), steps
        )
        for name, series in values.items():
            if place == 0:
                of_job[name] = series
            elif name in COUNTS:
                of_job[name] = in_order([of_job[name], series]) if name in of_job else series
    return of_job


def names(run: OpenRun) -> list[str]:
    """What can be drawn, losses and other qualities before counts."""
    return sorted(
        set(logged(run)) - {LOADED}, key=lambda name: (name in COUNTS, "loss" not in name, name)
    )


def series(
    run: OpenRun, name: str, over: str, span: tuple[float, float] | None
) -> LoggedSeries | None:
    """A logged value over ``steps``, ``samples`` (or tokens), ``time`` (s) or ``energy`` (J).

    Args:
        name: what was logged; the first of :func:`names` if it is not among them.
        over: what its axis is; steps if the run has nothing else.
        span: only what was logged between these seconds.

    Returns:
        None if nothing was logged.
    """
    values, drawable = logged(run), names(run)
    if not drawable:
        return None
    name = name if name in drawable else drawable[0]
    time_ns, value = values[name]
    if name in COUNTS:  # what was trained so far says more than a batch's size
        value = np.cumsum(np.nan_to_num(value))
    begin_ns = run.reader.begin_ns
    if span is not None:
        low, high = (begin_ns + int(1e9 * second) for second in span)
        inside = (time_ns >= low) & (time_ns <= high)
        time_ns, value = time_ns[inside], value[inside]
    axes = _axes(run, values)
    over = over if over in axes else next(iter(axes))
    x, curve = axes[over](time_ns), energy_curve(run)
    finite = np.isfinite(value)
    kept = _thinned(x[finite], value[finite])
    smooth, window = _smoothed(value[finite])
    return LoggedSeries(
        name,
        over,
        tuple(axes),
        x[finite][kept],
        value[finite][kept],
        smooth[kept],
        window,
        len(value),
        int((~finite).sum()),
        MODELLED if over == "energy" and curve is not None and curve[2] == MODELLED else MEASURED,
    )


def of_all(
    runs: Sequence[tuple[str, OpenRun]], name: str, over: str
) -> tuple[list[str], list[tuple[str, str, LoggedSeries]]]:
    """One value of several runs over the same axis.

    Args:
        runs: (side, run).
        name: what was logged; the first that all have if some have it not.
        over: what the axis is; one that all have if some have it not.

    Returns:
        (what all runs logged, (side, id, values) of each run that logged it); over energy without
        runs of which only a model says it, where others were metered.
    """
    if not runs:
        return [], []
    common = [value for value in names(runs[0][1]) if all(value in names(r) for _, r in runs)]
    drawable = common or names(runs[0][1])
    if not drawable:
        return [], []
    name = name if name in drawable else drawable[0]
    having = [(side, run) for side, run in runs if name in names(run)]
    axes = [_axes(run, logged(run)) for _, run in having]
    shared = [axis for axis in axes[0] if all(axis in other for other in axes)]
    over = over if over in shared else ("energy" if "energy" in shared else shared[0])
    of_runs = [(side, run.reader.id, series(run, name, over, None)) for side, run in having]
    drawn = [(side, id_, values) for side, id_, values in of_runs if values and len(values.x)]
    if len({values.provenance for _, _, values in drawn}) > 1:  # a model never beside a meter
        drawn = [each for each in drawn if each[2].provenance == MEASURED]
    return common, [(side, id_, replace(values, axes=shared)) for side, id_, values in drawn]


def _axes(run: OpenRun, values: Values) -> dict[str, Callable[[Ints], Floats]]:
    """What the values can be drawn over → where instants (ns) stand on it."""
    axes: dict[str, Callable[[Ints], Floats]] = {}
    steps = run.step_times().read()
    if len(steps.time_ns):
        axes["steps"] = lambda at: (
            steps.every * np.searchsorted(steps.time_ns, at, "right")
        ).astype(np.float64)
    count = next((name for name in COUNTS if name in values), None)
    if count is not None:
        when, how_many = values[count]
        total = np.append(0.0, np.cumsum(np.nan_to_num(how_many)))
        axes[count] = lambda at: total[np.searchsorted(when, at, "right")]
    begin_ns = run.reader.begin_ns
    axes["time"] = lambda at: (at - begin_ns) / 1e9
    curve = energy_curve(run)
    if curve is not None:
        at_ns, joules, _ = curve
        axes["energy"] = lambda at: np.interp(at, at_ns, joules)
    return axes


@cached
def energy_curve(run: OpenRun) -> tuple[Floats, Floats, str] | None:
    """(ns, J so far, measured or modelled) of all meters that count; of a model without any."""
    meters = main_meters(run.meters())
    measured = [meter for meter in meters if meter.source.provenance.value != MODELLED]
    chosen = measured or meters
    begin_ns = run.reader.begin_ns
    reads = read_all(chosen, begin_ns, begin_ns + int(run.duration_s * 1e9))
    gaps = run.reader.gaps()
    curves = [knots(meter.source, reads[id(meter)], gaps) for meter in chosen if id(meter) in reads]
    curves = [(at, joules) for at, joules in curves if len(at) > 1]
    if not curves:
        return None
    at_ns = np.unique(np.concatenate([at for at, _ in curves]))
    joules = np.sum([np.interp(at_ns, at, joules - joules[0]) for at, joules in curves], axis=0)
    return at_ns, joules, MEASURED if measured else MODELLED


def _thinned(x: Floats, value: Floats) -> Ints:
    if len(x) <= POINTS:
        return np.arange(len(x), dtype=np.int64)
    kept: Ints = MinMaxLTTBDownsampler().downsample(x, value, n_out=POINTS).astype(np.int64)
    return kept


def _smoothed(value: Floats) -> tuple[Floats, int]:
    """(running mean, how many values are in it); 1 where there are few."""
    window = max(1, len(value) // 40)
    if window < 3:
        return value, 1
    total = np.append(0.0, np.cumsum(value))
    middle = np.arange(len(value))
    low, high = np.maximum(0, middle - window // 2), np.minimum(len(value), middle + window // 2)
    return (total[high] - total[low]) / np.maximum(high - low, 1), window
