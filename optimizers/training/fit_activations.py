"""``checkpointing(budget=…)``: the layers are measured before the training, on a copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, default_collate

from probe.report.model import JsonValue

from ..analysis.checkpoint_plan import measure
from ..plan import Loss, Plan
from .data import moved
from .ranks import agreed
from .search_k import copied
from .snapshot import random_state, set_random_state


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was chosen: the plan with it, a table of all methods, and what run.json keeps.

    ``again_s`` is the predicted time of running layers again, in seconds per sample of a rank.
    """

    plan: Plan
    table: str
    stored: dict[str, JsonValue]
    again_s: float


def fitted(model: nn.Module, plan: Plan, loss: Loss, data: Dataset[Any], micro: int) -> Fitted:
    """Measure the layers, and drop those that the plan's budget asks for.

    Rank 0 measures for all. The batch is made of the first samples.

    Args:
        micro: samples of a micro-batch.

    Raises:
        TechniqueRefused: no plan fits the budget.
    """
    budget = plan.activations
    assert budget is not None
    before = random_state()
    try:
        batch = moved(default_collate([data[i] for i in range(micro)]), plan.device)
        half = plan.precision
        copy = copied(model).to(plan.device, half.dtype if half.mode == "master" else None).train()
        with torch.autocast(plan.device, half.dtype, enabled=half.mode != "full"):
            measured = agreed(measure(copy, loss, batch))
    finally:
        set_random_state(before)
    # Rank 0's: a solver that runs out of time may end elsewhere on another rank.
    placements = agreed(measured.every(budget.bytes))
    placement = placements[budget.placement]
    if placement is None:
        placement = measured.place(budget.bytes, budget.placement)  # raises, and says why
    accumulation = plan.accumulation
    samples = plan.per_rank * (accumulation.k if accumulation.mode == "grow" else 1)
    micro_batches = samples / micro  # of the first step; a k that changes makes others
    text = measured.table(placements, budget.placement, budget.bytes, micro_batches)
    (change,) = placement.technique().plan(Plan()).models
    return Fitted(
        replace(plan, models=(change, *plan.models)),
        text,
        measured.as_json(placement, budget.bytes, micro_batches),
        placement.seconds / micro,
    )
