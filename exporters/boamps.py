"""BoAmps (Boavizta's format for the energy of AI tasks), through CodeCarbon's own mapping."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from probe.sensors._carbon import silently

from ._shared import report_fields as figures
from ._shared.run import StoredRun, write_whole
from .codecarbon import emissions


@dataclass(frozen=True, slots=True)
class BoAmps:
    """Boavizta's report of an AI task, as JSON."""

    name: ClassVar[str] = "boamps"
    output: ClassVar[str] = "{id}.boamps.json"

    def export(self, run: StoredRun, output: Path) -> str:
        row = emissions(run)
        with silently():
            from codecarbon.output_methods.boamps.mapper import map_emissions_to_boamps
            from codecarbon.output_methods.boamps.models import (
                BoAmpsAlgorithm,
                BoAmpsDataset,
                BoAmpsTask,
            )

            task = BoAmpsTask(
                task_stage="training",
                task_family="other",
                algorithms=[
                    BoAmpsAlgorithm(framework="pytorch", framework_version=run.report["torch"])
                ],
                dataset=[
                    BoAmpsDataset(
                        data_usage="input", data_type="other", source=run.report["run"]["data"]
                    )
                ],
                task_description=run.name,
            )
            content = map_emissions_to_boamps(row, task=task).to_dict()
        energy = figures.devices(run.report)
        for measure in content["measures"]:
            measure["measurementMethod"] = "phasewatt"
            measure["version"] = run.report["machine"].get("versions", {}).get("phasewatt", "")
        content["quality"] = "high" if energy.measured_j >= 0.9 * energy.all_j else "medium"
        write_whole(output, json.dumps(content, indent=1, default=str) + "\n")
        return f"{output}: BoAmps, {figures.kwh(energy.all_j):.4g} kWh"


EXPORTER = BoAmps()
