"""Muon for the hidden matrices, the user's own optimizer for all other parameters.

Jordan et al. 2024 (kellerjordan.github.io/posts/muon); the size of a step after Liu et al. 2025
("Muon is Scalable for LLM Training").
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import TechniqueRefused
from ..plan import RATE_FACTOR, MakeRest, Plan
from ..technique import Base


@dataclass(frozen=True)
class Muon(Base):
    """Momentum, made orthogonal by five Newton–Schulz iterations; torch's (2.9 or later).

    Hidden matrices are weights of ``nn.Linear`` and of layers like it (a matrix ``weight``, perhaps
    a ``bias``: the ``Conv1D`` of GPT-2 in transformers) that are neither in the first nor the last
    layer with matrices, in the order in which layers were registered, nor tied with an embedding.
    Names of layers do not matter.

    Without ``lr`` a step has the trainer's rate and the size of one of AdamW, so a rate that suits
    AdamW suits both (Liu et al.). With ``lr`` it has that rate, and the size of Jordan et al.; the
    schedule applies to both alike. ``weight_decay`` is Muon's own.
    """

    name: ClassVar[str] = "muon"
    conflicts: ClassVar[frozenset[str]] = frozenset({"zero"})

    lr: float | None = None
    momentum: float = 0.95
    weight_decay: float = 0.1

    def plan(self, plan: Plan) -> Plan:
        if not hasattr(torch.optim, "Muon"):
            raise TechniqueRefused(f"muon needs torch 2.9 or later; this is {torch.__version__}")
        if self.lr is not None and not self.lr > 0:
            raise TechniqueRefused(f"muon: lr={self.lr}: a rate above 0")
        if not 0 <= self.momentum < 1:
            raise TechniqueRefused(f"muon: momentum={self.momentum}: from 0 to below 1")
        if self.weight_decay < 0:
            raise TechniqueRefused(f"muon: weight_decay={self.weight_decay}: 0 or more")
        if plan.compose_optimizer is not None:
            raise TechniqueRefused(
                "muon does not go with another technique that makes the optimizer: leave one out"
            )
        if self.lr is not None and not plan.lr > 0:
            raise TechniqueRefused(
                f"muon: lr={self.lr} needs a rate of the trainer above 0 beside it"
            )

        def make(
            model: nn.Module, weights: Sequence[torch.Tensor], rest: MakeRest
        ) -> torch.optim.Optimizer:
            return self._side_by_side(model, weights, rest, plan.lr)

        return replace(plan, compose_optimizer=make)

    def predicts(self, plan: Plan) -> str:
        return "fewer samples to the target; one state per hidden matrix; 15 products of it a step"

    def _side_by_side(
        self, model: nn.Module, weights: Sequence[torch.Tensor], rest: MakeRest, base: float
    ) -> torch.optim.Optimizer:
        hidden = hidden_matrices(model)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        matrices: list[torch.Tensor] = []
        others: list[torch.Tensor] = []
        for parameter, weight in zip(trained, weights, strict=True):
            (matrices if id(parameter) in hidden else others).append(weight)
        if not matrices:
            raise TechniqueRefused(
                "muon: the model has no hidden matrix: no linear layer between its first and its "
                "last one; leave muon out"
            )
        own = torch.optim.Muon(
            matrices,
            lr=self.lr or base,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            adjust_lr_fn="match_rms_adamw" if self.lr is None else "original",
        )
        own.param_groups[0][RATE_FACTOR] = 1.0 if self.lr is None else self.lr / base
        return Side((rest(others), own))


def hidden_matrices(model: nn.Module) -> set[int]:
    """Ids of the weights that :class:`Muon` is for."""
    layers = [
        module
        for module in model.modules()
        if any(parameter.ndim > 1 for parameter in module.parameters(recurse=False))
    ]
    embeddings = [layer for layer in layers if isinstance(layer, nn.Embedding | nn.EmbeddingBag)]
    left_out = {
        id(parameter)
        for layer in (*layers[:1], *layers[-1:], *embeddings)
        for parameter in layer.parameters(recurse=False)
    }
    linear = {id(layer.weight) for layer in layers if _is_linear(layer)}
    return linear - left_out


def _is_linear(layer: nn.Module) -> bool:
    """Whether a layer multiplies by one matrix, and adds a bias or nothing."""
    own = dict(layer.named_parameters(recurse=False))
    weight, bias = own.pop("weight", None), own.pop("bias", None)
    if weight is None or weight.ndim != 2 or own:
        return False
    return bias is None or (bias.ndim == 1 and len(bias) in weight.shape)


class Side(torch.optim.Optimizer):
    """Optimizers of different parameters, side by side, that step together as one."""

    def __init__(self, parts: Sequence[torch.optim.Optimizer]):
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    @property
    def state(self) -> defaultdict[torch.Tensor, Any]:
        """A copy of what the parts keep of each parameter."""
        parts = (part.state.items() for part in self.parts)
        return defaultdict(dict, itertools.chain.from_iterable(parts))

    @state.setter
    def state(self, _empty: object) -> None:
        """Every new optimizer is given an empty one; the parts have theirs."""

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Step all parts, after one call of ``closure``."""
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        for part in self.parts:
            part.step()
        return value

    def state_dict(self) -> dict[str, Any]:
        """The parts', in their order."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        # Loading has put new groups in the place of those that are listed here.
        self.param_groups = [group for part in self.parts for group in part.param_groups]
