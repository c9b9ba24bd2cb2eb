"""Energy of every device of a run: which meters, their curves, what they add up to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..attribution.meter.energy_curve import EnergyCurve
from ..attribution.meter.energy_knots import CounterKnots, EnergyKnots, PowerKnots
from ..attribution.meter.summary import MeterSummary
from ..model import Gap, Provenance, Source, device_kind
from ..report.model import PowerRow, SourceRow, SystematicError
from ..sensors.cards import systematic
from ..store.run_fields import PowerFields
from .meter_choice import POWERS

# Without a power limit: how far short peaks may lie above the highest mean power seen.
HEADROOM = 1.5
SHORTEST_POWER_S = 0.3
POWER_BINS = 400
SKETCH_BINS = 32
LIMIT_HEADROOM = 1.1  # boards overshoot their limit for milliseconds


@dataclass(frozen=True, slots=True)
class MeterReadings:
    """A source and the summary of what was read of it."""

    source: Source
    summary: MeterSummary


@dataclass(frozen=True, slots=True)
class DeviceEnergy:
    """One device's energy meter; ``highest_w`` is more than the device can ever draw."""

    source: Source
    summary: MeterSummary
    highest_w: float

    @property
    def curve(self) -> EnergyCurve | None:
        """The device's energy over the run; None if it hardly moved, or must not be attributed."""
        return self.summary.curve if self.source.attributable else None

    @property
    def name(self) -> str:
        """Name of the device."""
        return self.source.device


def knots_of(source: Source) -> EnergyKnots | None:
    """What makes an energy curve of this source's reads; None if it tells no energy."""
    if source.is_energy_counter:
        wrap_j = source.wrap_raw * source.scale if source.wrap_raw else None
        return CounterKnots(wrap_j, source.resolution_s)
    if source.unit == "W" and (
        source.quantity in POWERS or source.provenance is Provenance.MODELLED
    ):
        return PowerKnots(means=source.quantity == "power_samples")
    return None


def devices(meters: Sequence[MeterReadings]) -> list[DeviceEnergy]:
    """The meters of a device's energy, and modelled powers; measured ones first."""
    meters_of_energy = []
    for meter in meters:
        source, summary = meter.source, meter.summary
        power = source.unit == "W" and (source.in_total or source.provenance is Provenance.MODELLED)
        if not (source.is_energy_counter or power):
            continue
        curve = summary.curve
        if power and curve is not None and curve.length_s() < SHORTEST_POWER_S:
            summary = replace(summary, curve=None)  # one moment says nothing of a run
        meters_of_energy.append(DeviceEnergy(source, summary, _highest(meter, meters)))
    return sorted(
        meters_of_energy, key=lambda d: (d.source.provenance != "measured", natural(d.name))
    )


def natural(name: str) -> list[str | int]:
    """To sort names by: gpu10 comes after gpu9."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", name))]


def source_row(
    device: DeviceEnergy, run: tuple[int, int], gaps: Iterable[Gap], *, shared: bool
) -> SourceRow:
    """What the report says of a meter; ``shared``: other trainings used it at the same time."""
    source, curve = device.source, device.curve
    energy = energy_of(curve, run) if curve else None
    errors = systematic(source)
    return SourceRow(
        source=source.id,
        device=source.device,
        uuid=source.uuid,
        method=source.method,
        provenance=source.provenance,
        in_total=source.in_total,
        energy_j=energy,
        gaps=sum(gap.count for gap in gaps if gap.what == source.id),
        period_s=round(curve.period_s, 6) if curve else source.resolution_s,
        note=source.note,
        model=source.model,
        systematic=SystematicError(gain=errors.gain, offset_w=errors.offset_w, from_=errors.origin)
        if errors
        else None,
        shared=shared,
        device_kind=_kind_beyond_name(source),
        simulated=source.simulated,
    )


def _kind_beyond_name(source: Source) -> str:
    """The device's kind, where its name does not say it (``npu0``); else empty."""
    named = source.device_kind is device_kind(source.device)
    return "" if named else str(source.device_kind)


def power_row(device: DeviceEnergy, run: tuple[int, int]) -> PowerRow | None:
    """Mean power of a device over time; None without a curve.

    The bins have one length and hold the device's energy exactly. A bin without any update inside
    or beside it is null.
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
    return PowerRow(
        device=device.name,
        source=device.source.id,
        provenance=device.source.provenance,
        begin_s=0.0,
        step_s=(run[1] - run[0]) / 1e9 / number,
        power_w=tuple(
            None if gap else round(float(w), 3) for w, gap in zip(watts, silent, strict=True)
        ),
    )


def sketch(devices: Sequence[DeviceEnergy], run: tuple[int, int]) -> PowerFields | None:
    """Mean power of all meters that are in the total, else of the models', in some bins."""
    metered = [device for device in devices if device.curve is not None]
    counted = [device for device in metered if device.source.in_total]
    shown = counted or [
        device for device in metered if device.source.provenance is Provenance.MODELLED
    ]
    if not shown:
        return None
    edges = np.linspace(run[0], run[1], SKETCH_BINS + 1).astype(np.int64)
    joules = np.sum([np.diff(device.curve.at(edges)) for device in shown if device.curve], axis=0)
    watts = joules / (np.diff(edges).clip(1) / 1e9)
    return {
        "provenance": str(shown[0].source.provenance),
        "power_w": [round(float(w), 2) for w in watts],
    }


def total_interval(device: DeviceEnergy, run: tuple[int, int]) -> tuple[float, float]:
    """(low, high) of a device's energy over the run, in J.

    It is known to one update period at the mean power, plus all that was extrapolated; polled
    power to the error of its mean, too, and it does not know what was used in a silence.
    """
    assert device.curve is not None
    curve = device.curve
    energy = energy_of(curve, run)
    counter = device.source.is_energy_counter
    unmeasured = 1.0 - (curve.measured_share(*run) if counter else curve.sampled_share(*run))
    half = curve.period_s * curve.mean_power_w() + unmeasured * abs(energy)
    summary = device.summary
    if device.source.quantity == "power" and summary.samples > 2:
        # Moments were seen, not what lies between them; neighbours may repeat each other.
        error_w = 2 * summary.spread / math.sqrt(summary.samples / 2)
        half += error_w * (run[1] - run[0]) / 1e9
    return max(0.0, energy - half), energy + half


def energy_of(curve: EnergyCurve, run: tuple[int, int]) -> float:
    """Energy in J over the run; what lies beyond the knots is extrapolated."""
    ends = curve.at(np.array(run, dtype=np.int64))
    return float(ends[1] - ends[0])


def _highest(meter: MeterReadings, meters: Iterable[MeterReadings]) -> float:
    source = meter.source
    for other in meters:
        same = other.source.uuid == source.uuid and other.source.device == source.device
        if same and other.source.quantity == "power_limit" and other.summary.samples:
            return max(meter.summary.highest_w, other.summary.highest * LIMIT_HEADROOM)
    return meter.summary.highest_w * HEADROOM
