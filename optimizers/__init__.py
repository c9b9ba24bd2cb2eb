"""The optimisation stack as techniques that compose, and the trainer that runs it watched.

    from optimizers import Stack, Trainer
    Trainer(model, data, loss, stack=Stack.paper()).fit()

A :class:`Technique` changes a :class:`Plan`; a :class:`Stack` orders techniques and refuses what
does not go together; a :class:`Trainer` carries the plan out on an engine (plain, DDP, DeepSpeed).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ablation import ablate
    from .errors import TrainingFailed
    from .plan import Plan
    from .stack import Stack
    from .technique import Technique
    from .training.budget import Budget
    from .training.result import Result
    from .training.trainer import Trainer

__all__ = ["Budget", "Plan", "Result", "Stack", "Technique", "Trainer", "TrainingFailed", "ablate"]

_MODULES = {
    "Budget": "training.budget",
    "Plan": "plan",
    "Result": "training.result",
    "Stack": "stack",
    "Technique": "technique",
    "Trainer": "training.trainer",
    "TrainingFailed": "errors",
    "ablate": "ablation",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: `probe ablate` answers wrong arguments without torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value
