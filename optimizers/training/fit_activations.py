"""``checkpointing(budget=…)``: the layers are measured before the training, on a copy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, default_collate

from ..analysis.checkpoint_plan import measure
from ..plan import Loss, Plan
from .data import moved
from .ranks import agreed
from .search_k import copied
from .snapshot import random_state, set_random_state


def fitted(
    model: nn.Module, plan: Plan, loss: Loss, data: Dataset[Any], micro: int
) -> tuple[Plan, str]:
    """The plan with the layers that are dropped, and a table of what each method would do.

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
    text = measured.table(placements, budget.placement, budget.bytes)
    (change,) = placement.technique().plan(Plan()).models
    return replace(plan, models=(change, *plan.models)), text
