"""What a training will be: one immutable value that techniques change, one after the other.

A plan holds settings only. The trainer reads it once, before the first step, and stores it in
run.json, so that runs can be compared by their settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict

import torch
from torch import nn

from .comm_bytes import Wire
from .communication import Communication

Loss = Callable[[nn.Module, Any], torch.Tensor]  # (model, batch) → mean over the batch
MakeRest = Callable[[list[torch.Tensor]], torch.optim.Optimizer]  # the user's, of some parameters
# (model, what stands for its trained parameters, in order, the user's) → what steps all of them
ComposeOptimizer = Callable[[nn.Module, Sequence[torch.Tensor], MakeRest], torch.optim.Optimizer]

# (batch, share of the samples consumed before the step) → the batch that is trained on
ChangeBatch = Callable[[Any, float], Any]

RATE_FACTOR = "rate_factor"  # in a parameter group: its rate over the trainer's


@dataclass(frozen=True, slots=True)
class Accumulation:
    """How many micro-batches make a step (paper eq. 4–6).

    ``split`` cuts the batch |B| into k pieces (less memory, same step); ``grow`` draws k batches
    (a step of k|B| samples). ``adaptive``: k follows the gradients' variance.
    """

    k: int = 1
    mode: Literal["split", "grow"] = "split"
    adaptive: bool = False
    k_max: int = 1
    target: float | None = None  # σ²_target; None: calibrated in the first steps
    k_min: int = 1
    k_step: int = 1  # an adaptive k is a multiple of it
    optimal: bool = False  # k is measured before the first step (eq. 9)

    def allowed(self, k: int) -> int:
        """The smallest k that may be and is not below this one; the largest, if all are."""
        stepped = -(-k // self.k_step) * self.k_step
        return max(self.k_min, min(self.k_max, stepped))


@dataclass(frozen=True, slots=True)
class Precision:
    """``autocast`` keeps fp32 weights, ``master`` trains half-precision ones beside fp32 copies."""

    mode: Literal["full", "autocast", "master"] = "full"
    dtype: torch.dtype = torch.float32

    @property
    def scaled(self) -> bool:
        """fp16 needs its loss scaled, bf16 has the range of fp32."""
        return self.mode != "full" and self.dtype == torch.float16


@dataclass(frozen=True, slots=True)
class Schedule:
    """Learning rate over samples consumed (paper eq. 10, 11)."""

    warmup: float = 0.0  # share of the sample budget
    floor: float = 1.0  # share of the base rate at the end; 1: constant after warm-up
    scaling: Literal["none", "linear", "sqrt"] = "none"  # with the samples of a step
    shape: Literal["cosine", "linear", "wsd", "rex"] = "cosine"  # of the fall to the floor
    decay: float = 1.0  # share of the sample budget in which a wsd falls

    @property
    def constant(self) -> bool:
        """True if every step has the base rate."""
        return self.warmup == 0 and self.floor == 1 and self.scaling == "none"


@dataclass(frozen=True, slots=True)
class Averaging:
    """Which steps' weights are averaged; both are shares of the sample budget."""

    start: float  # steps that end after it count
    half_life: float | None  # in which what a step counts for halves; None: all count alike


@dataclass(frozen=True, slots=True)
class Freezing:
    """Which layers are trained at first only."""

    start: float  # share of the sample budget
    layers: float  # share of the layers, from the first


@dataclass(frozen=True, slots=True)
class Sharpness:
    """How far away the gradient is taken, and in which steps."""

    rho: float  # distance, a norm over all weights
    every: int  # steps


@dataclass(frozen=True, slots=True)
class ActivationBudget:
    """Bytes that a micro-batch's activations may take; the layers are measured before training."""

    bytes: float
    placement: Literal["greedy", "chen", "optimal"]


class LoaderOptions(TypedDict, total=False):
    """Arguments of torch's ``DataLoader``."""

    num_workers: int
    prefetch_factor: int
    persistent_workers: bool
    pin_memory: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Device, ranks, batch and rate as the user gave them; techniques decide the rest."""

    device: str = "cpu"
    world: int = 1
    batch_size: int = 1  # |B|: samples of a step over all ranks, when k = 1
    lr: float = 1e-3
    accumulation: Accumulation = field(default_factory=Accumulation)
    precision: Precision = field(default_factory=Precision)
    schedule: Schedule = field(default_factory=Schedule)
    clip_norm: float | None = None
    zero_stage: int | None = None
    zero_offload: str | None = None  # "optimizer" or "all": what stays in the host's memory
    bucket_mb: float | None = None
    compression: Callable[[nn.Module, Wire], Communication] | None = None  # in DDP's place
    activations: ActivationBudget | None = None
    averaging: Averaging | None = None
    evaluates_optimizers_average: bool = False  # the one that a schedule-free optimizer keeps
    freezing: Freezing | None = None
    sharpness: Sharpness | None = None
    batches: tuple[ChangeBatch, ...] = ()  # changes of each batch, in order
    models: tuple[Callable[[nn.Module], nn.Module], ...] = ()  # changes of the model, in order
    optimizer: dict[str, object] = field(default_factory=dict)  # arguments beside the rate
    compose_optimizer: ComposeOptimizer | None = None  # the user's with another beside it
    loader: LoaderOptions = field(default_factory=LoaderOptions)
    tf32: bool = False
    notes: tuple[str, ...] = ()

    def note(self, text: str) -> Plan:
        """The plan with a remark that the stack's table shows."""
        return replace(self, notes=(*self.notes, text))

    @property
    def per_rank(self) -> int:
        """Samples that a rank draws for one batch."""
        return self.batch_size // self.world

    @property
    def why_operations_vary(self) -> str | None:
        """Why samples of this training have no one number of operations, if they have none."""
        if self.batches:
            return "batches change their size during the training"
        if self.freezing is not None:
            return "layers are frozen during the training"
        return "some steps have a second backward" if self.sharpness is not None else None

    def prepared(self, model: nn.Module) -> nn.Module:
        """The model after the changes of all techniques, in their order."""
        for change in self.models:
            model = change(model)
        return model
