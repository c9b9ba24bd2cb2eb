"""The figures of a report and of a live page, with OpenTelemetry's names and units.

Hardware follows OpenTelemetry's semantic conventions (hw.energy, hw.power, hw.gpu.*; status:
development); figures without a convention are called phasewatt.*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from probe.model import Provenance
from probe.report.model import MemoryRow, Report
from probe.store.live import LiveMemory, LivePage

from .._shared import metrics
from .._shared.live_runs import which_rank
from .._shared.metrics import PREFIX, MetricDefinition
from .._shared.report_fields import activity_of, bounds, kind_of, kind_of_row, memory_of, totals

_TYPES = {"gpu": "gpu", "cpu": "cpu", "dram": "memory", "ram": "memory"}
_GPU_VALUES = {  # by the quantity of a meter
    "utilization": metrics.HW_GPU_UTILIZATION,
    "memory_utilization": metrics.HW_GPU_MEMORY_UTILIZATION,
    "memory_used": metrics.HW_GPU_MEMORY_USAGE,
    "temperature": metrics.HW_TEMPERATURE,
}
_PHASE, _STATUS, _BOUND, _PROVENANCE, _QUANTITY = (
    f"{PREFIX}.{name}" for name in ("phase", "status", "bound", "provenance", "quantity")
)
Attributes = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Point:
    """One figure of a metric."""

    metric: MetricDefinition
    value: float
    attributes: Attributes


def report_points(report: Report) -> Iterator[Point]:
    """The figures of a report."""
    run, total = report.run, report.total
    ids: dict[str, str] = {}
    for source in report.sources:
        if source.energy_j is None:
            continue
        kind = kind_of_row(source)
        own = _hardware(source.device, source.uuid or source.source, source.model, kind)
        if source.in_total:
            ids[source.device] = str(own["hw.id"])
            yield Point(_energy_of(kind), source.energy_j, own)
        elif source.is_modelled:
            yield Point(metrics.MODELLED_ENERGY, source.energy_j, own)
    yield Point(metrics.RUN_DURATION, run.duration_s, {})
    yield Point(metrics.RUN_STEPS, run.steps, {})
    yield from _bounded(metrics.RUN_ENERGY, total.energy_j, total.energy_j_interval, {})
    for definition, value in totals(report):
        yield Point(definition, value, {})
    for row in report.phases:
        at: dict[str, str | int] = {
            _PHASE: row.phase,
            "hw.name": row.device,
            "hw.id": ids.get(row.device, row.device),
            _PROVENANCE: row.provenance,
        }
        yield Point(metrics.PHASE_DURATION, row.time_s, at)
        if row.energy_j is None:
            continue
        if row.is_modelled:
            yield Point(metrics.PHASE_MODELLED_ENERGY, row.energy_j, at)
        else:
            yield from _bounded(
                metrics.PHASE_ENERGY_ESTIMATE,
                row.energy_j,
                row.energy_j_interval,
                at | {_STATUS: row.status},
            )
    for rate in report.rates:
        at = {
            _PHASE: rate.phase,
            _QUANTITY: rate.quantity,
            "hw.name": rate.device,
            "hw.id": ids.get(rate.device, rate.device),
            _PROVENANCE: rate.provenance,
            _STATUS: rate.status,
        }
        yield from _bounded(activity_of(rate), rate.value, rate.interval, at)
    for held in report.memory:
        yield from _memory(held, {f"{PREFIX}.rank": held.rank})


def live_points(page: LivePage) -> Iterator[Point]:
    """The figures of a live page; ``hw.energy`` counts from the run's begin."""
    ids = {device.device: device.uuid or device.source for device in page.devices}
    for device in page.devices:
        kind = kind_of(device.device, device.device_kind)
        own = _hardware(device.device, ids[device.device], "", kind)
        if device.provenance != Provenance.MEASURED:
            yield Point(metrics.MODELLED_ENERGY, device.energy_j, own)
            continue
        yield Point(_energy_of(kind), device.energy_j, own)
        if device.power_w is not None:
            power = metrics.HW_HOST_POWER if kind == "psys" else metrics.HW_POWER
            yield Point(power, device.power_w, own)
    for row in page.phases:
        at = {_PHASE: row.phase, "hw.name": row.device, "hw.id": ids.get(row.device, row.device)}
        yield Point(metrics.PHASE_ENERGY, row.given_j, at)
    for time in page.times:
        rank = {f"{PREFIX}.{name}": number for name, number in which_rank(time.rank).items()}
        yield Point(metrics.PHASE_TIME, time.seconds, {_PHASE: time.phase, **rank})
    for held in page.memory:
        rank = {f"{PREFIX}.{name}": number for name, number in which_rank(held.rank).items()}
        yield from _memory(held, rank)
    for busy in page.rates:
        at = {
            _PHASE: busy.phase,
            _QUANTITY: busy.quantity,
            "hw.name": busy.device,
            "hw.id": ids.get(busy.device, busy.device),
            _STATUS: busy.status,
        }
        yield from _bounded(activity_of(busy), busy.value, (busy.low, busy.high), at)
    for value in page.values:
        if kind_of(value.device, value.device_kind) == "gpu" and value.quantity in _GPU_VALUES:
            own = _hardware(value.device, ids.get(value.device, value.device), "", "gpu")
            yield Point(_GPU_VALUES[value.quantity], value.value, own)
    yield Point(metrics.STEPS, page.steps, {})


def _memory(row: MemoryRow | LiveMemory, rank: Mapping[str, int]) -> Iterator[Point]:
    at = {_PHASE: row.phase, _QUANTITY: row.quantity, "hw.name": row.device}
    for definition, value in memory_of(row):
        yield Point(definition, value, {**at, **rank})


def _hardware(device: str, id_: str, model: str, kind: str) -> dict[str, str | int]:
    type_ = _TYPES.get(kind)
    names: dict[str, str | int] = {"hw.id": id_, "hw.name": device}
    return names | ({"hw.type": type_} if type_ else {}) | ({"hw.model": model} if model else {})


def _energy_of(kind: str) -> MetricDefinition:
    return metrics.HW_HOST_ENERGY if kind == "psys" else metrics.HW_ENERGY


def _bounded(
    metric: MetricDefinition,
    best: float | None,
    interval: Sequence[float] | None,
    attributes: Attributes,
) -> Iterator[Point]:
    for bound, value in bounds(best, interval):
        yield Point(metric, value, {**attributes, _BOUND: bound})
