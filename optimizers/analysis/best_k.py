"""k_optimal = argmax throughput(k)/memory(k), by running the user's model (paper eq. 9)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..errors import UsageError
from ..plan import Loss
from ..techniques.accumulation import pieces, size
from .memory import kept


@dataclass(frozen=True, slots=True)
class Trial:
    """What k micro-batches per batch cost. ``activation_bytes`` are one micro-batch's."""

    k: int
    samples_per_s: float
    activation_bytes: int
    fixed_bytes: int  # weights, gradients, Adam's state

    @property
    def worth(self) -> float:
        """Samples per second and byte."""
        return self.samples_per_s / (self.activation_bytes + self.fixed_bytes)


def best_k(
    model: nn.Module,
    loss: Loss,
    batch: Any,
    ks: Sequence[int] = (1, 2, 4, 8, 16),
    *,
    rounds: int = 5,
) -> tuple[int, list[Trial]]:
    """(the k that is worth most, all trials). Gradients of the model are cleared.

    Memory is weights, gradients and AdamW's two moments, which k does not change, and what one
    micro-batch keeps for backward. Forward and backward of the whole batch are timed, the ks in
    turn, medians taken.

    Raises:
        UsageError: the batch is smaller than every k.
    """
    count = size(batch)
    possible = [k for k in ks if 1 <= k <= count]
    if not possible:
        raise UsageError(f"a batch of {count} cannot be cut into any of {tuple(ks)}")
    fixed = sum(16 * p.numel() for p in model.parameters() if p.requires_grad)
    parts = {k: pieces(batch, k) for k in possible}
    activation_bytes = {k: kept(model, [], loss, parts[k][0]).rest for k in possible}
    seconds: dict[int, list[float]] = {k: [] for k in possible}
    for turn in range(rounds + 1):
        for k in possible:
            begin = time.perf_counter()
            for part in parts[k]:
                (loss(model, part) / k).backward()
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            if turn:  # the first one warms up
                seconds[k].append(time.perf_counter() - begin)
            model.zero_grad(set_to_none=True)
    trials = [
        Trial(k, count / statistics.median(seconds[k]), activation_bytes[k], fixed)
        for k in possible
    ]
    return max(trials, key=lambda trial: trial.worth).k, trials
