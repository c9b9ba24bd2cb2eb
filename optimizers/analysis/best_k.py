"""k_optimal = argmax throughput(k)/memory(k), by running the user's model (paper eq. 9).

Every round times all candidates, in a new order; what they are worth is compared within rounds, so
that a machine that slows down does so for all of them. The best is chosen where it is better than
every smaller k by more than the rounds scatter; else the smallest k that is no worse is kept.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from probe.attribution.arrays import Floats
from probe.report.model import JsonValue

from ..errors import UsageError
from ..plan import Loss
from ..techniques.accumulation import pieces, size
from .memory import kept

CANDIDATES = (1, 2, 4, 8, 16)
LEVEL = 0.95
_ROUNDS, _FEWEST_ROUNDS, _BUDGET_S = 10, 5, 30.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What k micro-batches per batch cost. ``activation_bytes`` are one micro-batch's."""

    k: int
    samples: int
    seconds: tuple[float, ...]  # of the whole batch, of each round
    activation_bytes: int
    fixed_bytes: int  # weights, gradients, Adam's state

    @property
    def log_worth(self) -> Floats:
        """Ln of samples per second and byte, of each round."""
        bytes_ = self.activation_bytes + self.fixed_bytes
        return np.asarray(math.log(self.samples / bytes_) - np.log(self.seconds))

    @property
    def samples_per_s(self) -> float:
        """The geometric mean of all rounds."""
        return self.samples / math.exp(float(np.mean(np.log(self.seconds))))

    @property
    def worth(self) -> float:
        """Samples per second and byte."""
        return math.exp(float(self.log_worth.mean()))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % of ``worth``."""
        low, high = _interval(self.log_worth, (1 + LEVEL) / 2)
        return math.exp(low), math.exp(high)


@dataclass(frozen=True, slots=True)
class Choice:
    """The k that was chosen, why, and what was measured."""

    k: int
    reason: str
    trials: tuple[Trial, ...]

    def as_json(self) -> dict[str, JsonValue]:
        """For run.json and snapshots. Worth is relative to the smallest k's."""
        first = self.trials[0].worth
        return {
            "k": self.k,
            "reason": self.reason,
            "trials": [
                {
                    "k": trial.k,
                    "samples_per_s": trial.samples_per_s,
                    "memory_bytes": trial.activation_bytes + trial.fixed_bytes,
                    "worth": trial.worth / first,
                    "interval": [bound / first for bound in trial.interval],
                    "rounds": len(trial.seconds),
                }
                for trial in self.trials
            ],
        }

    def table(self) -> str:
        """Text: a line for each candidate, then what was chosen and why."""
        first = self.trials[0]
        lines = ["k optimal (9): samples/s per byte, 95 % interval"]
        for trial in self.trials:
            low, high = (bound / first.worth for bound in trial.interval)
            memory = (trial.activation_bytes + trial.fixed_bytes) / 2**20
            lines.append(
                f"  k={trial.k:<3} {trial.samples_per_s:10.1f} samples/s {memory:10.1f} MiB"
                f"  worth {trial.worth / first.worth:.3f} ({low:.3f} to {high:.3f})"
            )
        return "\n".join([*lines, f"  k={self.k} is used: {self.reason}"])


def best_k(
    model: nn.Module,
    loss: Loss,
    batch: Any,
    ks: Sequence[int] = CANDIDATES,
    *,
    rounds: int = _ROUNDS,
    around: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
) -> Choice:
    """Measure and choose. Gradients of the model are cleared.

    Memory is weights, gradients and AdamW's two moments, which k does not change, and what one
    micro-batch keeps for backward. Forward and backward of the whole batch are timed, for half a
    minute at most unless five rounds take longer. A k that the memory does not suffice for is left
    out.

    Args:
        around: made anew for each forward (autocast).

    Raises:
        UsageError: the batch is smaller than every k, or no k fits into memory.
    """
    count = size(batch)
    possible = [k for k in sorted(ks) if 1 <= k <= count]
    if not possible:
        raise UsageError(f"a batch of {count} cannot be cut into any of {tuple(ks)}")
    fixed = sum(16 * p.numel() for p in model.parameters() if p.requires_grad)
    parts = {k: pieces(batch, k) for k in possible}

    def run(k: int) -> float:
        begin = time.perf_counter()
        for part in parts[k]:
            with around():
                value = loss(model, part)
            (value / k).backward()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        took = time.perf_counter() - begin
        model.zero_grad(set_to_none=True)
        return took

    held: dict[int, int] = {}
    for k in possible:  # and warm up
        try:
            with around():
                held[k] = kept(model, [], loss, parts[k][0]).rest
            run(k)
        except torch.OutOfMemoryError:
            held.pop(k, None)
            model.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
    if not held:
        raise UsageError(f"no k of {possible} fits into memory: lower batch_size")
    seconds: dict[int, list[float]] = {k: [] for k in held}
    order, shuffler = list(held), random.Random(0)  # whose numbers are not the training's
    began = time.perf_counter()
    for number in range(rounds):
        if number >= _FEWEST_ROUNDS and time.perf_counter() - began > _BUDGET_S:
            break
        shuffler.shuffle(order)
        for k in order:
            seconds[k].append(run(k))
    trials = [Trial(k, count, tuple(seconds[k]), held[k], fixed) for k in held]
    return choose(trials)


def choose(trials: Sequence[Trial]) -> Choice:
    """The smallest k that the best one is not better than, within what the rounds scatter.

    Rounds are pairs: Student's t of the logarithms' differences, one-sided, at 5 % for all smaller
    candidates together (Bonferroni), since the best one was looked for among them.
    """
    best = max(trials, key=lambda trial: float(trial.log_worth.mean()))
    quantile = 1 - (1 - LEVEL) / max(len(trials) - 1, 1)
    for trial in sorted(trials, key=lambda trial: trial.k):
        if trial.k >= best.k:
            break
        low, high = _interval(best.log_worth - trial.log_worth, quantile)
        if not low > 0:
            reason = (
                f"k={best.k} seems worth {math.expm1((low + high) / 2):.1%} more, which the "
                "scatter of the rounds does not bear out"
            )
            return Choice(trial.k, reason, tuple(trials))
    smaller = any(trial.k < best.k for trial in trials)
    reason = "worth more than every smaller k" if smaller else "no larger k is worth more"
    return Choice(best.k, reason, tuple(trials))


def _interval(values: Floats, quantile: float) -> tuple[float, float]:
    """Around the mean; unbounded for a single value."""
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return -math.inf, math.inf
    half = float(stats.t.ppf(quantile, count - 1) * values.std(ddof=1) / math.sqrt(count))
    return mean - half, mean + half
