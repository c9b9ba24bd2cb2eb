"""The optimisation stack as techniques that compose, and the trainer that runs it watched.

    from optimizers import Stack, Trainer
    Trainer(model, data, loss, stack=Stack.paper()).fit()

A :class:`Technique` changes a :class:`Plan`; a :class:`Stack` orders techniques and refuses what
does not go together; a :class:`Trainer` carries the plan out on an engine (plain, DDP, DeepSpeed).
"""

from .ablation import ablate
from .errors import TrainingFailed
from .plan import Plan
from .stack import Stack
from .technique import Technique
from .training.budget import Budget
from .training.result import Result
from .training.trainer import Trainer

__all__ = ["Budget", "Plan", "Result", "Stack", "Technique", "Trainer", "TrainingFailed", "ablate"]
