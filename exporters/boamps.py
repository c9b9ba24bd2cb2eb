"""BoAmps (Boavizta's format for the energy of AI tasks), through CodeCarbon's own mapping."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from probe.sensors._carbon import silently

from ._shared import report_fields as figures
from ._shared.run import StoredRun, write_whole
from .codecarbon import emissions

if TYPE_CHECKING:
    from codecarbon.output_methods.boamps.models import BoAmpsReport

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
        content, energy = _mapped(run), figures.device_energies(run.report)
        method = METHOD_WITHOUT_METER if energy.measured_j is None else METHOD
        for measure in content.measures:
            measure.measurement_method = method
            measure.version = figures.phasewatt_version(run.report)
            measure.cpu_tracking_mode = (
                figures.tracking_mode(run.report, ("cpu", "psys"), MODEL) or None
            )
            measure.gpu_tracking_mode = figures.tracking_mode(run.report, ("gpu",), MODEL) or None
        # Its own default, "onPremise", is a claim; whether it ran in a cloud is unknown.
        content.infrastructure.infra_type = "other"
        if not figures.country(run.report)[0]:
            content.environment = None  # which is nothing without a country
        content.quality = quality(energy.measured_share)
        write_whole(output, json.dumps(content.to_dict(), indent=1, default=str) + "\n")
        energy_kwh = sum(measure.power_consumption for measure in content.measures)
        return f"{output}: BoAmps, {energy_kwh:.4g} kWh, quality {content.quality}"


def quality(measured_share: float | None) -> str:
    """BoAmps' ``quality`` for the share of the energy that was measured (0 to 1)."""
    for word, least in _LEAST_SHARE:
        if measured_share is not None and measured_share >= least:
            return word
    return "low"


def _mapped(run: StoredRun) -> BoAmpsReport:
    """CodeCarbon's mapping of the run. Raises ExportRefused."""
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
            algorithms=[BoAmpsAlgorithm(framework="pytorch", framework_version=run.report.torch)],
            dataset=[
                BoAmpsDataset(data_usage="input", data_type="other", source=run.report.run.data)
            ],
            task_description=run.name,
        )
        return map_emissions_to_boamps(row, task=task)


EXPORTER = BoAmps()
