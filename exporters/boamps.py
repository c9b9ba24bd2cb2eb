"""BoAmps (Boavizta's format for the energy of AI tasks), through CodeCarbon's own mapping."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from probe.sensors._carbon import silently

from ._shared import report_fields as figures
from ._shared.run import StoredRun, write_whole
from .codecarbon import emissions

MODEL = "power model"  # a tracking mode, as ``nvml`` and ``rapl`` are
METHOD = "phasewatt"
METHOD_WITHOUT_METER = "phasewatt: a power model, nothing was measured"
# BoAmps' scale of quality is an error of ±10, ±25 or ±50 %; a model's joules may be off by half.
_LEAST_SHARE = (("high", 0.9), ("medium", 0.5))


@dataclass(frozen=True, slots=True)
class BoAmps:
    """Boavizta's report of an AI task, as JSON."""

    name: ClassVar[str] = "boamps"
    output: ClassVar[str] = "{id}.boamps.json"

    def export(self, run: StoredRun, output: Path) -> str:
        content = _mapped(run)
        report, energy = run.report, figures.device_energies(run.report)
        method = METHOD_WITHOUT_METER if energy.measured_j is None else METHOD
        for measure in content["measures"]:
            measure["measurementMethod"] = method
            measure["version"] = report["machine"].get("versions", {}).get("phasewatt", "")
            for key, kinds in (("cpuTrackingMode", ("cpu", "psys")), ("gpuTrackingMode", ("gpu",))):
                if mode := figures.tracking_mode(report, kinds, MODEL):
                    measure[key] = mode
        # Its own default, "onPremise", is a claim; whether it ran in a cloud is unknown.
        content["infrastructure"]["infraType"] = "other"
        if not figures.country(report)[0]:
            del content["environment"]  # which is nothing without a country
        content["quality"] = quality(energy.measured_share)
        write_whole(output, json.dumps(content, indent=1, default=str) + "\n")
        return (
            f"{output}: BoAmps, {figures.kwh(energy.all_j):.4g} kWh, quality {content['quality']}"
        )


def quality(measured_share: float | None) -> str:
    """BoAmps' ``quality`` for the share of the energy that was measured (0 to 1)."""
    for word, least in _LEAST_SHARE:
        if measured_share is not None and measured_share >= least:
            return word
    return "low"


def _mapped(run: StoredRun) -> dict[str, Any]:
    """CodeCarbon's mapping of the run, as the JSON of BoAmps. Raises ExportRefused."""
    # The mapper compares utilizations with 0, and leaves out those that are.
    row = replace(emissions(run), cpu_utilization_percent=0.0, gpu_utilization_percent=0.0)
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
        return dict(map_emissions_to_boamps(row, task=task).to_dict())


EXPORTER = BoAmps()
