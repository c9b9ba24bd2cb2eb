"""The figures of a report and of a live page, with OpenTelemetry's names and units.

Names and units: OpenTelemetry semantic conventions for hardware (hw.energy, hw.power, hw.gpu.*),
status development; figures without a convention are called probe.*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from probe.store.live import LivePage

from .._shared.live_runs import which_rank
from .._shared.report_fields import TOTALS, bounds, kind_of, kind_of_row

_TYPES = {"gpu": "gpu", "cpu": "cpu", "dram": "memory", "ram": "memory"}

# quantity of a meter -> (name, unit); levels that may fall are up-down counters there
_GAUGES = {
    "utilization": ("hw.gpu.utilization", "1"),
    "memory_utilization": ("hw.gpu.memory.utilization", "1"),
    "temperature": ("hw.temperature", "Cel"),
}
_LEVELS = {"memory_used": ("hw.gpu.memory.usage", "By")}


@dataclass(frozen=True, slots=True)
class Point:
    """One figure; ``kind`` is ``counter``, ``level`` (an up-down counter) or ``gauge``."""

    name: str
    unit: str
    about: str
    kind: str
    value: float
    attributes: Mapping[str, str | int]


def report_points(report: Mapping[str, Any]) -> Iterator[Point]:
    """The figures of a report."""
    run, total = report["run"], report["total"]
    ids: dict[str, str] = {}
    for row in report["sources"]:
        if row["energy_j"] is None:
            continue
        kind = kind_of_row(row)
        own = _hardware(row["device"], row["uuid"] or row["source"], row["model"], kind)
        if row["in_total"]:
            ids[row["device"]] = str(own["hw.id"])
            yield _energy(kind, row["energy_j"], own)
        elif row["provenance"] == "modelled":
            yield _modelled(row["energy_j"], own)
    yield Point("probe.run.duration", "s", "From begin to end", "gauge", run["duration_s"], {})
    yield Point("probe.run.steps", "{step}", "Optimizer steps", "counter", run["steps"], {})
    yield from _bounded(
        "probe.run.energy", "Measured energy", total["energy_j"], total["energy_j_interval"], {}
    )
    for key, name, unit, about in TOTALS:
        if total[key] is not None:
            yield Point(f"probe.run.{name}", unit, about, "gauge", total[key], {})
    for row in report["phases"]:
        at: dict[str, str | int] = {
            "probe.phase": row["phase"],
            "hw.name": row["device"],
            "hw.id": ids.get(row["device"], row["device"]),
            "probe.provenance": row["provenance"],
        }
        yield Point("probe.phase.duration", "s", "Time in a phase", "gauge", row["time_s"], at)
        yield from _bounded(
            "probe.phase.energy",
            "Energy of a phase",
            row["energy_j"],
            row["energy_j_interval"],
            at | {"probe.status": row["status"]},
        )


def live_points(page: LivePage) -> Iterator[Point]:
    """The figures of a live page; ``hw.energy`` counts from the run's begin."""
    ids: dict[str, str] = {}
    for device in page.devices:
        ids[device.device] = device.uuid or device.source
        kind = kind_of(device.device, device.device_kind)
        own = _hardware(device.device, ids[device.device], "", kind)
        if device.provenance == "measured":
            yield _energy(kind, device.energy_j, own)
            if device.power_w is not None:
                name = "hw.host.power" if kind == "psys" else "hw.power"
                yield Point(
                    name, "W", "Mean power over the last second", "gauge", device.power_w, own
                )
        else:
            yield _modelled(device.energy_j, own)
    for row in page.phases:
        at = {
            "probe.phase": row.phase,
            "hw.name": row.device,
            "hw.id": ids.get(row.device, row.device),
        }
        yield Point(
            "probe.phase.energy",
            "J",
            "Energy handed to a phase; never revised",
            "counter",
            row.given_j,
            at,
        )
    for spent in page.times:
        yield Point(
            "probe.phase.duration",
            "s",
            "Time in a phase on the host",
            "counter",
            spent.seconds,
            {"probe.phase": spent.phase}
            | {f"probe.{name}": value for name, value in which_rank(spent.rank).items()},
        )
    for value in page.values:
        if kind_of(value.device, value.device_kind) != "gpu":
            continue
        own = _hardware(value.device, ids.get(value.device, value.device), "", "gpu")
        if value.quantity in _GAUGES:
            name, unit = _GAUGES[value.quantity]
            yield Point(name, unit, "", "gauge", value.value, own)
        elif value.quantity in _LEVELS:
            name, unit = _LEVELS[value.quantity]
            yield Point(name, unit, "", "level", value.value, own)
    yield Point("probe.steps", "{step}", "Optimizer steps that closed", "counter", page.steps, {})


def _hardware(device: str, id_: str, model: str, kind: str) -> dict[str, str | int]:
    type_ = _TYPES.get(kind)
    names: dict[str, str | int] = {"hw.id": id_, "hw.name": device}
    return names | ({"hw.type": type_} if type_ else {}) | ({"hw.model": model} if model else {})


def _energy(kind: str, joules: float, own: Mapping[str, str | int]) -> Point:
    name = "hw.host.energy" if kind == "psys" else "hw.energy"
    return Point(name, "J", "Energy since the run's begin, measured", "counter", joules, own)


def _modelled(joules: float, own: Mapping[str, str | int]) -> Point:
    about = "A model's energy, not measured"
    return Point("probe.modelled.energy", "J", about, "counter", joules, own)


def _bounded(
    name: str,
    about: str,
    best: float | None,
    interval: Sequence[float] | None,
    attributes: Mapping[str, str | int],
) -> Iterator[Point]:
    for bound, value in bounds(best, interval):
        yield Point(name, "J", about, "gauge", value, {**attributes, "probe.bound": bound})
