"""CodeCarbon's ``emissions.csv``: kWh, kg, W, seconds; a row per run.

The columns and their order are those of CodeCarbon's own dataclass, so that its dashboard and
other readers accept ours. Unknown fields (place, cloud) stay empty.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from probe.sensors._carbon import silently

from ._shared import report_fields as figures
from ._shared.run import StoredRun, write_whole

if TYPE_CHECKING:
    from codecarbon.output_methods.emissions_data import EmissionsData

G_PER_KG, BYTES_PER_GB = 1e3, 1e9


@dataclass(frozen=True, slots=True)
class CodeCarbon:
    """A row of CodeCarbon's emissions.csv; rows of other runs in the file are kept."""

    name: ClassVar[str] = "codecarbon"
    output: ClassVar[str] = "emissions.csv"

    def export(self, run: StoredRun, output: Path) -> str:
        row = dict(vars(emissions(run)))
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
    fields, machine = report["run"], report["machine"]
    energy = figures.devices(report)
    seconds = fields["duration_s"]
    kilograms = figures.grams(report) / G_PER_KG
    name, iso = figures.country(report)
    gpus = figures.models(report, "gpu")
    return EmissionsData(
        timestamp=fields["ended"][:19],
        project_name=run.name,
        run_id=run.id,
        experiment_id=fields["data"],
        duration=seconds,
        emissions=kilograms,
        emissions_rate=kilograms / seconds if seconds else 0.0,
        cpu_power=energy.cpu_j / seconds if seconds else 0.0,
        gpu_power=energy.gpu_j / seconds if seconds else 0.0,
        ram_power=energy.ram_j / seconds if seconds else 0.0,
        cpu_energy=figures.kwh(energy.cpu_j),
        gpu_energy=figures.kwh(energy.gpu_j),
        ram_energy=figures.kwh(energy.ram_j),
        energy_consumed=figures.kwh(energy.all_j),
        water_consumed=0.0,
        country_name=name,
        country_iso_code=iso,
        region="",
        cloud_provider="",
        cloud_region="",
        os=machine.get("os", ""),
        python_version=fields.get("python") or "",
        codecarbon_version=version,
        cpu_count=machine.get("cpu_count", 0),
        cpu_model=machine.get("cpu_model", ""),
        gpu_count=len(gpus),
        gpu_model=figures.counted(gpus),
        longitude="",
        latitude="",
        ram_total_size=machine.get("memory_bytes", 0) / BYTES_PER_GB,
        tracking_mode="machine",
    )


def _rows(path: Path, columns: list[str]) -> list[dict[str, Any]]:
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
