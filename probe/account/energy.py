"""Energy of every device of a run: which meters, their curves, what they add up to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..attribution import curve as curves
from ..attribution.curve import EnergyCurve
from ..model import RESTARTED, Gap, Kind, Provenance
from ..store.reader import Series

# Without a power limit: how far short peaks may lie above the highest mean power seen.
HEADROOM = 1.5
SHORTEST_POWER_S = 0.3
POWER_BINS = 400
LIMIT_HEADROOM = 1.1  # boards overshoot their limit for milliseconds


@dataclass(frozen=True, slots=True)
class Device:
    """One device's energy meter with its curve over the run."""

    series: Series
    curve: EnergyCurve | None
    highest_w: float

    @property
    def name(self) -> str:
        return self.series.source.device


def devices(series: Iterable[Series], gaps: Iterable[Gap]) -> list[Device]:
    """All energy meters and modelled powers of the run, measured ones first."""
    restarts: dict[str, list[int]] = {}
    for gap in gaps:
        if gap.reason == RESTARTED:
            restarts.setdefault(gap.what, []).append(gap.end_ns)
    series = list(series)
    found = []
    for one in series:
        source = one.source
        counter = source.quantity == "energy" and source.kind is Kind.COUNTER
        power = source.unit == "W" and (
            source.in_total or source.provenance is Provenance.MODELLED
        )
        if not (counter or power):
            continue
        curve = None
        if source.attributable and len(one.time_ns):
            if counter:
                wrap = source.wrap_raw * source.scale if source.wrap_raw else None
                curve = curves.from_counter(
                    one.time_ns, one.value, one.span_ns, wrap,
                    restarts_ns=np.array(restarts.get(source.id, ()), np.int64),
                    resolution_s=source.resolution_s,
                )
            else:
                means = source.quantity == "power_samples"
                curve = curves.from_power(one.time_ns, one.value, means=means)
                if curve is not None and curve.length_s() < SHORTEST_POWER_S:
                    curve = None  # one moment says nothing of a run
        found.append(Device(one, curve, _highest(curve, one, series)))
    return sorted(found, key=lambda d: (d.series.source.provenance != "measured", d.name))


def source_row(device: Device, run: tuple[int, int], gaps: Iterable[Gap]) -> dict[str, Any]:
    """The row of ``sources`` in the report."""
    source, curve = device.series.source, device.curve
    energy = energy_of(curve, run) if curve else None
    return {
        "source": source.id,
        "device": source.device,
        "uuid": source.uuid,
        "method": source.method,
        "provenance": str(source.provenance),
        "in_total": source.in_total,
        "energy_j": energy,
        "gaps": sum(gap.count for gap in gaps if gap.what == source.id),
        "period_s": round(curve.period_s, 6) if curve else source.resolution_s,
        "note": source.note,
        "model": source.model,
    }


def power_row(device: Device, run: tuple[int, int]) -> dict[str, Any] | None:
    """Mean power of a device over time, in bins of one length that hold its energy exactly; a bin
    without any update inside or beside it is null.
    """
    curve = device.curve
    if curve is None:
        return None
    usual_s = max(2 * curve.period_s, 1e-3)
    number = int(min(POWER_BINS, max(1, (run[1] - run[0]) / 1e9 / usual_s)))
    edges = np.linspace(run[0], run[1], number + 1).astype(np.int64)
    watts = np.diff(curve.at(edges)) / (np.diff(edges) / 1e9)
    place = np.searchsorted(curve.time_ns, edges)
    silent = (place[1:] == place[:-1]) & (np.diff(edges) > 3e9 * curve.period_s)
    return {
        "device": device.name, "source": device.series.source.id,
        "provenance": str(device.series.source.provenance),
        "begin_s": 0.0, "step_s": (run[1] - run[0]) / 1e9 / number,
        "power_w": [None if gap else round(float(w), 3)
                    for w, gap in zip(watts, silent, strict=True)],
    }


def total_interval(device: Device, run: tuple[int, int]) -> tuple[float, float]:
    """Known to one update period at the mean power, plus all that was extrapolated; polled power
    to the error of its mean, too.
    """
    assert device.curve is not None
    curve = device.curve
    energy = energy_of(curve, run)
    unmeasured = 1.0 - curve.measured_share(*run)
    half = curve.period_s * curve.mean_power_w() + unmeasured * abs(energy)
    watts = device.series.value
    if device.series.source.quantity == "power" and len(watts) > 2:
        # Moments were seen, not what lies between them; neighbours may repeat each other.
        half += 2 * float(watts.std()) / math.sqrt(len(watts) / 2) * (run[1] - run[0]) / 1e9
    return max(0.0, energy - half), energy + half


def energy_of(curve: EnergyCurve, run: tuple[int, int]) -> float:
    """Energy in J over the run; what lies beyond the knots is extrapolated."""
    ends = curve.at(np.array(run, dtype=np.int64))
    return float(ends[1] - ends[0])


def _highest(curve: EnergyCurve | None, one: Series, series: list[Series]) -> float:
    if curve is None:
        return 0.0
    seen = curve.highest_power_w()
    for other in series:
        same = other.source.uuid == one.source.uuid and other.source.device == one.source.device
        if same and other.source.quantity == "power_limit" and len(other.value):
            return max(seen, float(other.value.max()) * LIMIT_HEADROOM)
    return seen * HEADROOM
