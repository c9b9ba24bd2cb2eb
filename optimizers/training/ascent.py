"""The way to the point near by whose gradient a step takes (technique ``sam``), and back."""

from __future__ import annotations

import torch
from torch import nn

from ..plan import Sharpness

_LEAST = 1e-12  # of a norm: where there is no gradient there is no way


class Ascent:
    """Moves a model's weights along their gradients, and puts them back bit for bit."""

    def __init__(self, settings: Sharpness, module: nn.Module):
        self._settings, self._module = settings, module
        self._there: list[tuple[torch.Tensor, torch.Tensor]] = []  # each with its value at w

    def due(self, step: int) -> bool:
        """True of the step that follows so many."""
        return step % self._settings.every == 0

    @torch.no_grad()
    def climb(self) -> None:
        """From w, whose gradients are there, to w + ρ·g/‖g‖; the gradients are dropped."""
        weights = [p for p in self._module.parameters() if p.grad is not None]
        gradients = [p.grad for p in weights if p.grad is not None]
        kept = [*weights, *self._module.buffers()]  # norms have seen the batch, and will again
        self._there = [(tensor, tensor.detach().clone()) for tensor in kept]
        norm = nn.utils.get_total_norm(gradients)
        length = self._settings.rho / norm.clamp(min=_LEAST)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.add_(gradient * length)
            weight.grad = None

    @torch.no_grad()
    def descend(self) -> None:
        """Back to w, with the gradients of where it was."""
        for tensor, value in self._there:
            tensor.copy_(value)
        self._there = []
