"""What only the end of a training shows, logged for comparisons of runs."""

from __future__ import annotations

from collections.abc import Mapping

from probe.report.sentences import RECOMPUTE_PREDICTED

from ..analysis.flops import Utilisation
from .ranks import peak_memory
from .snapshot import Position
from .target_progress import Progress


def last_values(
    at: Position,
    device: str,
    memory: Mapping[str, int],
    held_before: int,
    utilisation: Utilisation,
    flops_per_sample: float | None,
    progress: Progress | None,
    again_s: float | None,
) -> dict[str, float]:
    """Values by the names they are logged under.

    Args:
        memory: bytes by component, seen in the first step; empty if there was none.
        held_before: bytes that the process held before it trained; 0 on a GPU.
        again_s: predicted seconds of recomputation per sample of all ranks; None: no prediction.
    """
    peak = peak_memory(device)
    values: dict[str, float] = {"peak_memory_bytes": peak, "train_s": at.train_seconds}
    if memory:
        parts = dict(memory)
        if held_before:
            parts["process"] = max(0, held_before - parts.get("weights", 0))
        parts["workspace"] = max(0, peak - sum(parts.values()))
        values |= {f"memory_{name}_bytes": amount for name, amount in parts.items() if amount}
    if flops_per_sample is not None:
        values["flops_per_sample"] = flops_per_sample
    if again_s is not None and at.step:
        values[RECOMPUTE_PREDICTED] = again_s * at.samples / at.step  # a step
    if utilisation.mfu is not None:
        values["mfu"] = utilisation.mfu
    if progress is not None and progress.reached and progress.first is not None:
        values["target_samples"], values["target_s"] = progress.first
    return values
