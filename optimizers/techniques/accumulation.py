"""Gradient accumulation, its k fixed or led by the gradients' variance (paper eq. 4–9)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypedDict

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from ..errors import DataProblem, TechniqueRefused
from ..plan import Accumulation, Plan
from ..technique import Base

EPSILON = 1e-12  # of eq. (6)
SMOOTHING = 0.9  # of σ², or k would jump with every step
CALIBRATION_STEPS = 10
PROBE_EVERY = 10  # steps with k = 1 on one rank; then one with 2, or σ² is never seen again


@dataclass(frozen=True)
class GradientAccumulation(Base):
    """k micro-batches a step. With ``adaptive`` k = min(k_max, ⌈σ²/σ²_target⌉), eq. (6).

    An adaptive k starts at ``k``, is at least ``k_min`` and a multiple of ``k_step``. ``k=4..8`` on
    a command line is ``k=4, k_min=4, k_max=8, adaptive=True``. ``k="optimal"`` is measured before
    the first step, eq. (9).
    """

    name: ClassVar[str] = "accumulation"
    equation: ClassVar[str] = "(4)–(9)"
    after: ClassVar[frozenset[str]] = frozenset(
        {"zero", "compression", "int8", "onebit", "powersgd", "topk"}
    )

    spans: ClassVar[dict[str, tuple[str, str, str]]] = {"k": ("k_min", "k_max", "adaptive")}

    k: int | Literal["optimal"] = 4
    mode: Literal["split", "grow"] = "split"
    adaptive: bool = False
    k_max: int = 16
    target: float | None = None
    k_min: int = 1
    k_step: int = 1

    def plan(self, plan: Plan) -> Plan:
        if self.k == "optimal":
            if self.mode != "split" or self.adaptive:
                raise TechniqueRefused(
                    "accumulation: k=optimal goes with mode=split and without adaptive: it is one "
                    "k, of pieces of the batch"
                )
            return replace(plan, accumulation=Accumulation(k_max=plan.per_rank, optimal=True))
        if min(self.k, self.k_max, self.k_min, self.k_step) < 1:
            raise TechniqueRefused(
                f"accumulation: k={self.k}, k_min={self.k_min}, k_max={self.k_max}, "
                f"k_step={self.k_step}: at least 1"
            )
        if self.adaptive and not self.k_min <= self.k_max:
            raise TechniqueRefused(f"accumulation: k_min={self.k_min} is above k_max={self.k_max}")
        if self.mode not in ("split", "grow"):
            raise TechniqueRefused(f"accumulation: mode={self.mode!r}: write 'split' or 'grow'")
        if self.target is not None and not self.target > 0:
            raise TechniqueRefused(f"accumulation: target={self.target}: a variance above 0")
        if self.adaptive and plan.zero_stage == 3:
            raise TechniqueRefused(
                "accumulation with adaptive=True does not go with zero stage 3: "
                "its gradients are never whole; use stage 2 or a fixed k"
            )
        if self.adaptive and plan.compression is not None:
            plan = plan.note("accumulation: ‖ḡ‖ is that of compressed gradients, σ² near it only")
        k_max = self.k_max if self.adaptive else self.k
        if self.mode == "split" and k_max > plan.per_rank:
            if not self.adaptive:
                raise TechniqueRefused(
                    f"accumulation: a batch of {plan.per_rank} per rank cannot be split into "
                    f"{k_max}: lower k or raise batch_size"
                )
            k_max = plan.per_rank
        k_max = k_max // self.k_step * self.k_step or k_max
        return replace(
            plan,
            accumulation=Accumulation(
                min(self.k, k_max),
                self.mode,
                self.adaptive,
                k_max,
                self.target,
                min(self.k_min, k_max),
                self.k_step,
            ),
        )

    def predicts(self, plan: Plan) -> str:
        k = "k, measured first" if plan.accumulation.optimal else str(plan.accumulation.k)
        if plan.accumulation.mode == "split":
            return f"activations ÷ {k}; same step, same data"
        return f"steps of {k}× the samples, ÷ {k} communication under DDP"


class PolicyState(TypedDict):
    """A :class:`KPolicy` as it is saved."""

    k: int
    target: float | None
    variance: float | None
    seen: list[float]
    blind: int


class KPolicy:
    """How many micro-batches the next step has; ranks that saw the same σ² agree.

    σ² is the variance of one micro-batch's gradient and grows as micro-batches shrink, so with
    ``split`` eq. (6) would feed on itself (more pieces, larger σ², more pieces). It is referred to
    a micro-batch of |B| first: σ²·b/|B|. (PAPER.md)
    """

    def __init__(self, settings: Accumulation, ranks: int):
        self._settings, self._ranks = settings, ranks
        self.k = settings.k
        if settings.adaptive and self.k * ranks < 2:
            self.k = min(2, settings.k_max)  # or there is nothing to calibrate with
        self.target = settings.target
        self.variance: float | None = None  # smoothed, of a micro-batch of |B|
        self._seen: list[float] = []
        self._blind = 0  # steps without a variance

    def saw(self, variance: float | None, share: float) -> None:
        """Take the variance of a step; ``share`` is the micro-batch's size over |B|."""
        if not self._settings.adaptive:
            return
        if variance is not None and math.isfinite(variance):
            referred = variance * share
            old = self.variance
            self.variance = (
                referred if old is None else (SMOOTHING * old + (1 - SMOOTHING) * referred)
            )
            if self.target is None:
                self._calibrate(referred)
        if self.target is None or self.variance is None:
            return
        self.k = self._settings.allowed(math.ceil(self.variance / (self.target + EPSILON)))
        if self.k * self._ranks < 2:
            self._blind += 1
            if self._blind >= PROBE_EVERY:
                self._blind, self.k = 0, min(2, self._settings.k_max)

    def _calibrate(self, variance: float) -> None:
        self._seen.append(variance)
        if len(self._seen) >= CALIBRATION_STEPS:
            # The k that was asked for is right for what these steps saw.
            self.target = sum(self._seen) / len(self._seen) / self._settings.k

    def state(self) -> PolicyState:
        """What a resumed run needs."""
        return {
            "k": self.k,
            "target": self.target,
            "variance": self.variance,
            "seen": list(self._seen),
            "blind": self._blind,
        }

    def restore(self, state: PolicyState) -> None:
        """Go on from :meth:`state`."""
        self.k, self.target, self.variance = state["k"], state["target"], state["variance"]
        self._seen, self._blind = list(state["seen"]), state["blind"]


def pieces(batch: Any, k: int) -> list[Any]:
    """A batch (tensors, in tuples, lists, dicts) cut into k along their first axes.

    Sizes differ by one at most. Anything else than tensors is in every piece.
    """
    if k == 1:
        return [batch]
    leaves, form = tree_flatten(batch)
    cut = [
        torch.tensor_split(leaf, k) if isinstance(leaf, torch.Tensor) else [leaf] * k
        for leaf in leaves
    ]
    return [tree_unflatten([parts[j] for parts in cut], form) for j in range(k)]


def size(batch: Any) -> int:
    """Samples of a batch: the first tensor's first axis. Raises DataProblem if there is none."""
    for leaf in tree_leaves(batch):
        if isinstance(leaf, torch.Tensor):
            return len(leaf)
    raise DataProblem("a batch holds no tensor: phasewatt cannot tell how many samples it has")
