"""``k="optimal"``: eq. (9) is measured before the training, on a copy; it changes nothing else."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, default_collate

from ..analysis.best_k import Choice, best_k
from ..errors import TechniqueRefused
from ..plan import Loss, Plan
from ..techniques.precision import accept_floats
from .data import moved
from .ranks import agreed, forget_peak
from .snapshot import random_state, set_random_state


def copied(model: nn.Module) -> nn.Module:
    """The model as it is before the techniques change it. Raises TechniqueRefused."""
    try:
        return copy.deepcopy(model)
    except Exception as error:
        raise TechniqueRefused(
            "a copy of the model is measured (accumulation k=optimal, checkpointing budget=), and "
            f"it cannot be copied ({type(error).__name__}: {error}): leave that option out"
        ) from error


def search(model: nn.Module, plan: Plan, loss: Loss, data: Dataset[Any]) -> Choice:
    """Measure all candidates with the plan's other techniques; rank 0's choice is everyone's.

    All ranks measure at once, as they train at once. The batch is made of the first samples.

    Args:
        model: a copy; its weights are not used after this.
    """
    before = random_state()
    try:
        batch = moved(default_collate([data[i] for i in range(plan.per_rank)]), plan.device)
        half = plan.precision
        model = model.to(plan.device, half.dtype if half.mode == "master" else None)
        model = plan.prepared(model).train()
        if half.mode == "master":
            accept_floats(model, half.dtype)

        def around() -> contextlib.AbstractContextManager[Any]:
            if half.mode == "autocast":
                return torch.autocast(plan.device, half.dtype)
            return contextlib.nullcontext()

        return agreed(best_k(model, loss, batch, around=around))
    finally:
        set_random_state(before)
        forget_peak(plan.device)  # k = 1 holds more than the k that is trained with
