"""Power and other levels over any part of a run, from rollups or samples, whichever is enough."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from tsdownsample import MinMaxLTTBDownsampler

from probe.model import Kind, Provenance, Source
from probe.store.rollup import WIDTHS

from ..chart_data import Floats, Level, Power
from .power_bins import Read, binned, finest_s, line
from .run import Meter, OpenRun

BINS = 400  # of a chart, which has no room for more
POINTS = 2000  # of a line
_RAW_S = 600.0  # up to here samples are read themselves
_W = "W"


def power(
    run: OpenRun, span: tuple[float, float], devices: Collection[str] = (), bins: int = BINS
) -> Power | None:
    """Power of every device with a meter of energy or power, else a model's.

    Args:
        span: from, to, in seconds since the run's begin.
        devices: only these; all if empty.
        bins: at most so many.

    Returns:
        None if nothing was read in ``span``.
    """
    meters = run.meters()
    gaps = run.reader.gaps()
    begin_ns = run.reader.begin_ns
    low, high = (begin_ns + int(s * 1e9) for s in span)
    chosen = [
        meter for meter in main_meters(meters) if not devices or meter.source.device in devices
    ]
    if not chosen or high <= low:
        return None
    polled = [_polled(meter, meters) for meter in chosen]
    asked = [*chosen, *(meter for meter in polled if meter is not None)]
    by_meter = read_all(asked, low, high, 4 * bins)
    reads = [by_meter.get(id(meter)) for meter in chosen]
    bin_s = min(finest_s(meter.source, read) for meter, read in zip(chosen, reads, strict=True))
    number = int(max(1, min(bins, (high - low) / 1e9 / bin_s)))
    edges = np.linspace(low, high, number + 1)
    rows = [
        binned(meter.source, read, _extreme_readings(meter, read, other, by_meter), edges, gaps)
        for meter, read, other in zip(chosen, reads, polled, strict=True)
    ]
    mean = np.array([row[0] for row in rows])
    if not np.isfinite(mean).any():
        return None
    return Power(
        (edges - begin_ns) / 1e9,
        [meter.source.device for meter in chosen],
        [str(meter.source.provenance) for meter in chosen],
        mean,
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows]),
        _caps(chosen, meters, low, high),
        max((float(line(read)[0][-1]) - begin_ns) / 1e9 for read in reads if read is not None),
    )


def levels(
    run: OpenRun,
    span: tuple[float, float],
    quantities: Collection[str],
    devices: Collection[str] = (),
    points: int = POINTS,
) -> list[Level]:
    """Gauges of some quantities, thinned to ``points``; other arguments as of :func:`power`."""
    begin_ns = run.reader.begin_ns
    low, high = (begin_ns + int(s * 1e9) for s in span)
    chosen = [meter for meter in run.meters() if _is_shown(meter.source, quantities, devices)]
    reads = read_all(chosen, low, high, points)
    read_levels = []
    for meter in chosen:
        source, read = meter.source, reads.get(id(meter))
        if read is None:
            continue
        time_ns, value = line(read)
        if len(time_ns) > points:
            keep = MinMaxLTTBDownsampler().downsample(time_ns, value, n_out=points)
            time_ns, value = time_ns[keep], value[keep]
        at, values = _with_gaps((time_ns - begin_ns) / 1e9, value * source.scale)
        read_levels.append(
            Level(
                source.device,
                source.quantity,
                source.unit,
                at,
                values,
                source.limit,
                str(source.device_kind),
            )
        )
    return read_levels


def main_meters(meters: Sequence[Meter]) -> list[Meter]:
    """One meter per device: the one that counts into the total, else a model."""
    chosen: dict[str, Meter] = {}
    for meter in meters:
        source = meter.source
        modelled = source.provenance is Provenance.MODELLED and source.unit == _W
        if source.in_total and source.attributable:
            chosen[source.device] = meter
        elif modelled:
            chosen.setdefault(source.device, meter)
    return list(chosen.values())


def _is_shown(source: Source, quantities: Collection[str], devices: Collection[str]) -> bool:
    """Whether a source is a gauge to be shown: of the chosen GPUs and of all other devices."""
    if source.quantity not in quantities or source.kind is not Kind.GAUGE:
        return False
    return not devices or not source.is_accelerator or source.device in devices


def _polled(meter: Meter, meters: Iterable[Meter]) -> Meter | None:
    """The power meter of a counter's device, which shows the extremes of power within a bin."""
    if not meter.source.is_energy_counter:
        return None
    return next(
        (
            other
            for other in meters
            if other.source.device == meter.source.device
            and other.source.unit == _W
            and other.source.kind is Kind.GAUGE
            and other.source.quantity in ("power", "power_samples")
        ),
        None,
    )


def _extreme_readings(
    meter: Meter, read: Read | None, polled: Meter | None, reads: Mapping[int, Read]
) -> tuple[Read, float] | None:
    """(readings, scale) for the least and the most power in a bin; None without such readings."""
    if not meter.source.is_energy_counter:
        return None if read is None else (read, meter.source.scale)
    other = None if polled is None else reads.get(id(polled))
    return None if polled is None or other is None else (other, polled.source.scale)


def read_all(meters: Sequence[Meter], low: int, high: int, points: int = POINTS) -> dict[int, Read]:
    """Samples of a short span, rollup buckets of a long one; by ``id`` of the meter.

    A margin before and after the span is read too. Files are read once for all meters of a node.
    Meters without a reading are left out.

    Args:
        low: begin of the span, in ns.
        high: its end, in ns.
        points: about how many buckets of a long span.
    """
    seconds = (high - low) / 1e9
    margin = int(max(2.0, 0.02 * seconds) * 1e9)
    label = next(
        (label for label, width_s in WIDTHS.items() if seconds / width_s <= points),
        list(WIDTHS)[-1],
    )
    by_meter: dict[int, Read] = {}
    for history in {id(meter.history): meter.history for meter in meters}.values():
        of_history = [meter for meter in meters if meter.history is history]
        wanted = [meter.index for meter in of_history]
        reads: Mapping[int, Read] = (
            history.raw(wanted, low - margin, high + margin)
            if seconds <= _RAW_S
            else history.rolled(wanted, low - margin, high + margin, label)
        )
        by_meter |= {id(meter): reads[meter.index] for meter in of_history if meter.index in reads}
    return by_meter


def _caps(
    chosen: Sequence[Meter], meters: Sequence[Meter], low: int, high: int
) -> list[float | None]:
    """The last power limit near the span, per chosen meter; limits are read only now and then."""
    limits = {
        meter.source.device: meter for meter in meters if meter.source.quantity == "power_limit"
    }
    wanted = [limits[meter.source.device] for meter in chosen if meter.source.device in limits]
    reads = read_all(wanted, max(low, high - int(60e9)), high) if wanted else {}
    if not reads and wanted:
        reads = read_all(wanted, low - int(60e9), high)
    last = {
        meter.source.device: float(line(reads[id(meter)])[1][-1]) * meter.source.scale
        for meter in wanted
        if id(meter) in reads
    }
    return [last.get(meter.source.device) for meter in chosen]


def _with_gaps(at: Floats, value: Floats) -> tuple[Floats, Floats]:
    """With a missing value in each long gap, so that no line is drawn across it."""
    if len(at) < 3:
        return at, value
    step = np.diff(at)
    where = np.flatnonzero(step > 5 * max(float(np.median(step)), 1e-3)) + 1
    middle = (at[where - 1] + at[where]) / 2
    return np.insert(at, where, middle), np.insert(value, where, np.nan)
