"""Figures of a report that several formats need, in the report's own units."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from probe.model import DeviceKind, device_kind
from probe.report.model import CarbonIntensity, MemoryRow, RateRow, Report, SourceRow
from probe.report.usage_tables import CPU_CORES
from probe.store.live import LiveMemory, LiveRate
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
class DeviceEnergies:
    """Energy by kind of device in J, measured where it was, else a model's; None is unknown."""

    gpu_j: float | None
    cpu_j: float | None
    ram_j: float | None
    measured_j: float | None
    modelled_j: float | None

    @property
    def all_j(self) -> float | None:
        """Measured and modelled together, for formats that have one number for both."""
        return sum_of_known(self.measured_j, self.modelled_j)

    @property
    def measured_share(self) -> float | None:
        """Share of the energy that was measured, 0 to 1; None without any energy."""
        if not self.all_j:
            return None
        return 0.0 if self.measured_j is None else self.measured_j / self.all_j


def sum_of_known(*values: float | None) -> float | None:
    """The sum of what is known; None if nothing is."""
    known_values = [value for value in values if value is not None]
    return sum(known_values) if known_values else None


def device_energies(report: Report) -> DeviceEnergies:
    """Energy of the run by kind of device."""
    measured: dict[str, float] = {}
    modelled: dict[str, float] = {}
    for row in report.sources:
        if row.energy_j is not None and (row.in_total or row.is_modelled):
            joules = modelled if row.is_modelled else measured
            kind = kind_of_row(row)
            joules[kind] = joules.get(kind, 0.0) + row.energy_j
    return DeviceEnergies(
        gpu_j=measured.get("gpu"),
        cpu_j=sum_of_known(measured.get("cpu"), measured.get("psys"), modelled.get("cpu")),
        ram_j=sum_of_known(measured.get("dram"), modelled.get("ram")),
        measured_j=report.total.energy_j,
        modelled_j=report.total.modelled_energy_j,
    )


def totals(report: Report) -> Iterator[tuple[MetricDefinition, float]]:
    """The run's totals beside its measured energy, as far as they are known."""
    total = report.total
    for definition, value in (
        (metrics.RUN_CO2E, total.co2e_g),
        (metrics.RUN_MODELLED_ENERGY, total.modelled_energy_j),
        (metrics.RUN_MODELLED_CO2E, total.modelled_co2e_g),
        (metrics.RUN_COVERAGE, total.coverage),
    ):
        if value is not None:
            yield definition, value


def memory_of(row: MemoryRow | LiveMemory) -> Iterator[tuple[MetricDefinition, float]]:
    """The peak and the mean of what a rank held in a phase."""
    yield metrics.PHASE_MEMORY_PEAK, row.peak_bytes
    yield metrics.PHASE_MEMORY_MEAN, row.mean_bytes


def activity_of(rate: RateRow | LiveRate) -> MetricDefinition:
    """The metric of a rate: cores of a process, else a share."""
    return metrics.PHASE_CPU_CORES if rate.quantity == CPU_CORES else metrics.PHASE_ACTIVITY


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


def kind_of_row(row: SourceRow) -> str:
    """As :func:`kind_of`, of a row of the report's ``sources``."""
    return kind_of(row.device, row.device_kind)


def co2e_g(report: Report) -> float | None:
    """CO2e of what was measured and modelled, in g; None if it is unknown."""
    return sum_of_known(report.total.co2e_g, report.total.modelled_co2e_g)


def carbon_of(report: Report) -> CarbonIntensity:
    """The carbon intensity of the grid. Raises ExportRefused if it is unknown."""
    if report.carbon is None:
        raise ExportRefused(
            f"{report.run.id} has no carbon intensity: set country= in watch(), or PROBE_COUNTRY"
        )
    return report.carbon


def country(report: Report) -> tuple[str, str]:
    """(name, ISO 3166 alpha-3); both empty for the world's average."""
    if report.carbon is None or not report.carbon.country:
        return "", ""
    return report.carbon.label.rpartition(", ")[0], report.carbon.country


def product_names(report: Report, kind: str) -> list[str]:
    """Product names of the measured devices of a kind."""
    return [
        row.model or row.device
        for row in report.sources
        if kind_of_row(row) == kind and row.in_total
    ]


def tracking_mode(report: Report, kinds: Collection[str], model: str) -> str:
    """Which sensor the energy of some kinds of device is from; ``model`` for a model, else empty.

    Args:
        kinds: words of :func:`kind_of`.
        model: the word for a model.
    """
    sources = [
        row for row in report.sources if row.energy_j is not None and kind_of_row(row) in kinds
    ]
    sensors = [row.source.partition(":")[0] for row in sources if row.in_total]
    if sensors:
        return ", ".join(dict.fromkeys(sensors))
    return model if any(row.is_modelled for row in sources) else ""


def machine_text(report: Report, key: str) -> str:
    """A text of the report's ``machine``; empty if it is unknown."""
    value = report.machine.get(key)
    return value if isinstance(value, str) else ""


def machine_number(report: Report, key: str) -> int | None:
    """A number of the report's ``machine``; None if it is unknown."""
    value = report.machine.get(key)
    return value if isinstance(value, int) and value else None


def phasewatt_version(report: Report) -> str:
    """The version that recorded the run; empty if it is unknown."""
    versions = report.machine.get("versions")
    version = versions.get("phasewatt") if isinstance(versions, Mapping) else None
    return version if isinstance(version, str) else ""


def counted(names: list[str]) -> str:
    """Equal names counted: ``2 x NVIDIA H100, 1 x …``."""
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def samples(report: Report) -> tuple[float, str] | None:
    """(number, unit) of what the run logged: samples, else tokens, else steps; None without any."""
    for name in ("samples", "tokens"):
        logged = report.values.get(name)
        if logged is not None and logged.sum:
            return logged.sum, name
    return (float(report.run.steps), "steps") if report.run.steps else None


def kwh(joules: float | None) -> float | None:
    """Joules as kilowatt-hours; None stays unknown."""
    return None if joules is None else joules / J_PER_KWH
