"""Figures of a report that several formats need, in the report's own units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from probe.model import DeviceKind, device_kind
from probe.units import J_PER_KWH

from . import metrics
from .metrics import MetricDefinition
from .run import ExportRefused

_WORDS = {
    DeviceKind.ACCELERATOR: "gpu",
    DeviceKind.CPU: "cpu",
    DeviceKind.DRAM: "dram",
    DeviceKind.PLATFORM: "psys",
    DeviceKind.HOST: "host",
    DeviceKind.PROCESS: "process",
}


@dataclass(frozen=True, slots=True)
class Devices:
    """Energy by kind of device, measured where it was, else a model's; J."""

    gpu_j: float
    cpu_j: float
    ram_j: float
    measured_j: float
    modelled_j: float

    @property
    def all_j(self) -> float:
        """Measured and modelled together."""
        return self.measured_j + self.modelled_j


def devices(report: Mapping[str, Any]) -> Devices:
    """Joules by kind of device. A model's joules of a device that is measured are left out."""
    measured: dict[str, float] = {}
    modelled: dict[str, float] = {}
    for row in report["sources"]:
        if row["energy_j"] is None:
            continue
        joules = modelled if row["provenance"] == "modelled" else measured
        if row["in_total"] or row["provenance"] == "modelled":
            kind = kind_of_row(row)
            joules[kind] = joules.get(kind, 0.0) + row["energy_j"]
    total = report["total"]
    return Devices(
        measured.get("gpu", 0.0),
        measured.get("cpu", 0.0) + measured.get("psys", 0.0) + modelled.get("cpu", 0.0),
        measured.get("dram", 0.0) + modelled.get("ram", 0.0),
        total["energy_j"] or 0.0,
        total["modelled_energy_j"] or 0.0,
    )


def totals(report: Mapping[str, Any]) -> Iterator[tuple[MetricDefinition, float]]:
    """The run's totals beside its measured energy, as far as they are known."""
    total = report["total"]
    for definition, value in (
        (metrics.RUN_CO2E, total["co2e_g"]),
        (metrics.RUN_MODELLED_ENERGY, total["modelled_energy_j"]),
        (metrics.RUN_MODELLED_CO2E, total["modelled_co2e_g"]),
        (metrics.RUN_COVERAGE, total["coverage"]),
    ):
        if value is not None:
            yield definition, value


def bounds(
    best: float | None, interval: Sequence[float | None] | None
) -> Iterator[tuple[str, float]]:
    """An estimate and the ends of its interval by name, as far as they are known."""
    low, high = interval or (None, None)
    for bound, value in (("best", best), ("lower", low), ("upper", high)):
        if value is not None:
            yield bound, value


def kind_of(device: str, kind: str = "") -> str:
    """The word for a device in the names of metrics.

    One of gpu, cpu, dram, ram, psys, host, process, other. ``node/gpu0`` is a gpu, and so is every
    accelerator; ``ram`` is modelled.

    Args:
        kind: as it was stored; empty: the device's name says it.
    """
    if device.rpartition("/")[2] == "ram":
        return "ram"
    return _WORDS.get(device_kind(device, kind), "other")


def kind_of_row(row: Mapping[str, Any]) -> str:
    """As :func:`kind_of`, of a row of the report's ``sources``."""
    return kind_of(row["device"], row.get("device_kind", ""))


def grams(report: Mapping[str, Any]) -> float:
    """CO2e of what was measured and modelled, in g. Raises ExportRefused without an intensity."""
    total = report["total"]
    parts = [total[key] for key in ("co2e_g", "modelled_co2e_g") if total[key] is not None]
    if not parts:
        raise ExportRefused(
            f"{report['run']['id']} has no carbon: its energy or the grid's intensity is unknown"
        )
    return float(sum(parts))


def intensity(report: Mapping[str, Any]) -> float:
    """Carbon intensity in g CO2e per kWh. Raises ExportRefused if it is unknown."""
    carbon = report["carbon"]
    if not carbon:
        raise ExportRefused(
            f"{report['run']['id']} has no carbon intensity: give country= "
            "to watch(), or PROBE_COUNTRY"
        )
    return float(carbon["g_per_kwh"])


def country(report: Mapping[str, Any]) -> tuple[str, str]:
    """(name, ISO 3166 alpha-3); both empty for the world's average."""
    carbon = report["carbon"] or {}
    iso = carbon.get("country") or ""
    return (str(carbon.get("label", "")).rpartition(", ")[0] if iso else ""), iso


def models(report: Mapping[str, Any], kind: str) -> list[str]:
    """Product names of the measured devices of a kind."""
    return [
        row["model"] or row["device"]
        for row in report["sources"]
        if kind_of_row(row) == kind and row["in_total"]
    ]


def counted(names: list[str]) -> str:
    """Equal names counted: ``2 x NVIDIA H100, 1 x …``."""
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def samples(report: Mapping[str, Any]) -> tuple[float, str] | None:
    """(number, unit) of what the run logged: samples, else tokens, else steps; None without any."""
    for name in ("samples", "tokens"):
        logged = report["values"].get(name)
        if logged and logged["sum"]:
            return float(logged["sum"]), name
    steps = report["run"]["steps"]
    return (float(steps), "steps") if steps else None


def kwh(joules: float) -> float:
    """Joules as kilowatt-hours."""
    return joules / J_PER_KWH
