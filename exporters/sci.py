"""Software Carbon Intensity, ISO/IEC 21031:2024: SCI = ((E × I) + M) per R, all four stated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ._shared import report_fields as figures
from ._shared.run import ExportRefused, StoredRun, write_whole


@dataclass(frozen=True, slots=True)
class SoftwareCarbonIntensity:
    """SCI of ISO/IEC 21031 with its four inputs (--set embodied_g=… is needed)."""

    name: ClassVar[str] = "sci"
    output: ClassVar[str] = "{id}.sci.json"

    embodied_g: float | None = None  # M: this run's share of making the hardware
    per: float = 1000.0  # R: so many samples (tokens, steps)

    def export(self, run: StoredRun, output: Path) -> str:
        report = run.report
        if self.embodied_g is None:
            raise ExportRefused(
                "sci needs M, this run's share of the hardware's embodied carbon, in g: "
                "--set embodied_g=… (there is no default, since 0 would be a claim)"
            )
        counted = figures.samples(report)
        if counted is None:
            raise ExportRefused(
                f"{run.id} has no samples, tokens or steps, so there is no unit R to divide by"
            )
        if self.embodied_g < 0 or self.per <= 0:
            raise ExportRefused("sci: embodied_g must be at least 0, and per above 0")
        energy, (number, unit) = figures.device_energies(report), counted
        carbon = figures.carbon_of(report)
        energy_kwh = figures.kwh(energy.all_j)
        if energy_kwh is None:
            raise ExportRefused(
                f"{run.id} has no energy, measured or modelled: `probe doctor` says why"
            )
        units = number / self.per
        sci = (energy_kwh * carbon.g_per_kwh + self.embodied_g) / units
        sci_unit = f"gCO2e per {self.per:g} {unit}"
        content = {
            "standard": "ISO/IEC 21031:2024",
            "run": run.id,
            "sci": sci,
            "sci_unit": sci_unit,
            "E": {
                "value": energy_kwh,
                "unit": "kWh",
                "measured": figures.kwh(energy.measured_j),
                "modelled": figures.kwh(energy.modelled_j),
            },
            "I": {
                "value": carbon.g_per_kwh,
                "unit": "gCO2e/kWh",
                "source": carbon.source,
                "label": carbon.label,
            },
            "M": {"value": self.embodied_g, "unit": "gCO2e", "source": "given"},
            "R": {"value": units, "unit": f"{self.per:g} {unit}"},
            "note": "offsets do not count; energy of the cooling and of other nodes is not in E",
        }
        write_whole(output, json.dumps(content, indent=1, allow_nan=False) + "\n")
        return f"{output}: {sci:.4g} {sci_unit}"


EXPORTER = SoftwareCarbonIntensity()
