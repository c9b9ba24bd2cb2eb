"""The ``co2_eq_emissions`` of a Hugging Face model card, in grams, through its own library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from probe.report.model import Report

from ._shared import report_fields as figures
from ._shared.run import ExportRefused, StoredRun, write_whole

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData


@dataclass(frozen=True, slots=True)
class HuggingFace:
    """Metadata of a model card (YAML): grams of CO2e, hardware, place."""

    name: ClassVar[str] = "huggingface"
    output: ClassVar[str] = "{id}.card.md"

    training_type: str = ""  # pre-training or fine-tuning; left out if it is not given

    def export(self, run: StoredRun, output: Path) -> str:
        card = self.card(run)
        write_whole(output, f"---\n{card.to_yaml()}\n---\n")
        return f"{output}: model card metadata, {figures.co2e_g(run.report):.4g} g CO2e"

    def card(self, run: StoredRun) -> ModelCardData:
        """The run as a ``ModelCardData``. Raises ExportRefused."""
        try:
            from huggingface_hub import ModelCardData
        except ImportError:
            raise ExportRefused(
                "huggingface needs huggingface_hub: pip install 'phasewatt[exporters]'"
            ) from None
        report = run.report
        grams = figures.co2e_g(report)
        if grams is None:
            raise ExportRefused(
                f"{run.id} has no CO2e: its energy or the carbon intensity of its grid is unknown"
            )
        name, iso = figures.country(report)
        hardware = figures.product_names(report, "gpu") or [
            figures.machine_text(report, "cpu_model") or "unknown"
        ]
        training_type = {"training_type": self.training_type} if self.training_type else {}
        return ModelCardData(
            co2_eq_emissions={
                "emissions": grams,
                "source": f"phasewatt {figures.phasewatt_version(report)}: {_origin(report)}",
                **training_type,
                "geographical_location": name or iso or "unknown (world's average intensity)",
                "hardware_used": figures.counted(hardware),
            }
        )


def _origin(report: Report) -> str:
    """How much of the energy was measured, in words."""
    energy = figures.device_energies(report)
    share = energy.measured_share
    if energy.measured_j is None or share is None:
        return "energy by a power model, nothing was measured"
    if energy.modelled_j is None:
        return "all of the energy measured"
    return f"{share:.0%} of the energy measured, the rest modelled"


EXPORTER = HuggingFace()
