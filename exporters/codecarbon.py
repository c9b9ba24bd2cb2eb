"""CodeCarbon's ``emissions.csv``: kWh, kg, W, seconds; a row per run.

The columns and their order are those of CodeCarbon's own dataclass, so that its dashboard and
other readers accept ours. What is unknown (utilization, water, place, cloud, a device without a
meter) is an empty cell, which pandas reads as NaN, where CodeCarbon itself writes 0.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from probe.sensors._carbon import silently

from ._shared import report_fields as figures
from ._shared.run import ExportRefused, StoredRun, write_whole

if TYPE_CHECKING:
    from codecarbon.output_methods.emissions_data import EmissionsData

G_PER_KG, BYTES_PER_GB = 1e3, 1e9


@dataclass(frozen=True, slots=True)
class CodeCarbon:
    """A row of CodeCarbon's emissions.csv; rows of other runs in the file are kept."""

    name: ClassVar[str] = "codecarbon"
    output: ClassVar[str] = "emissions.csv"

    def export(self, run: StoredRun, output: Path) -> str:
        row = vars(emissions(run))
        kept = [old for old in _rows(output, list(row)) if old["run_id"] != row["run_id"]]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, row])
        write_whole(output, text.getvalue())
        number = f"{len(kept) + 1} runs" if kept else "one run"
        return f"{output}: {number} in CodeCarbon's format"


def emissions(run: StoredRun) -> EmissionsData:
    """The run as CodeCarbon's dataclass, in its units. Raises ExportRefused."""
    with silently():
        from codecarbon import __version__ as version
        from codecarbon.output_methods.emissions_data import EmissionsData
    report = run.report
    energy = figures.device_energies(report)
    seconds = report.run.duration_s
    if energy.all_j is None:
        raise ExportRefused(
            f"{run.id} has no energy, measured or modelled: `probe doctor` says why"
        )
    grams = figures.co2e_g(report)
    kilograms = None if grams is None else grams / G_PER_KG
    name, iso = figures.country(report)
    gpus = figures.product_names(report, "gpu")
    memory_bytes = figures.machine_number(report, "memory_bytes")

    def watts(joules: float | None) -> float | None:
        return joules / seconds if joules is not None and seconds else None

    return EmissionsData(
        timestamp=report.run.ended[:19],
        project_name=run.name,
        run_id=run.id,
        experiment_id=report.run.data,
        duration=seconds,
        emissions=kilograms,
        emissions_rate=kilograms / seconds if kilograms is not None and seconds else None,
        cpu_power=watts(energy.cpu_j),
        gpu_power=watts(energy.gpu_j),
        ram_power=watts(energy.ram_j),
        cpu_energy=figures.kwh(energy.cpu_j),
        gpu_energy=figures.kwh(energy.gpu_j),
        ram_energy=figures.kwh(energy.ram_j),
        energy_consumed=figures.kwh(energy.all_j),
        water_consumed=None,
        country_name=name,
        country_iso_code=iso,
        region="",
        cloud_provider="",
        cloud_region="",
        os=figures.machine_text(report, "os"),
        python_version=report.run.python,
        codecarbon_version=version,
        cpu_count=figures.machine_number(report, "cpu_count"),
        cpu_model=figures.machine_text(report, "cpu_model"),
        gpu_count=len(gpus) or None,  # GPUs without a meter are not seen
        gpu_model=figures.counted(gpus),
        longitude=None,
        latitude=None,
        ram_total_size=memory_bytes / BYTES_PER_GB if memory_bytes else None,
        tracking_mode="machine",
        cpu_utilization_percent=None,
        gpu_utilization_percent=None,
        ram_utilization_percent=None,
        ram_used_gb=None,
        on_cloud="",
        wue=None,
    )


def _rows(path: Path, columns: list[str]) -> list[dict[str, str]]:
    """The rows of a file that has the same columns; none of any other file."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames != columns:
                return []
            return list(reader)
    except FileNotFoundError:
        return []


EXPORTER = CodeCarbon()
