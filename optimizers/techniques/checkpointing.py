"""Activation checkpointing: keep the input of every s-th layer, run the rest again (eq. 18–20).

The paper's s is √L, which minimises L/s + s: right where a layer's internals are as large as its
input. A transformer layer's are many times that, so s = 1 keeps less: ``every=1``, or
``placement.place``, which measures the layers and drops what costs least to run again. The cost is
one more forward of the dropped layers, not √L of them. (PAPER.md)

Layers keep their places and names: the first of a segment runs all of it under
``torch.utils.checkpoint``, the others return their input.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..errors import TechniqueRefused
from ..plan import ActivationBudget, Plan
from ..technique import Base

_FEWEST = 2  # blocks that make a stack


@dataclass(frozen=True)
class Checkpointing(Base):
    """Segments of ``every`` layers (None: √L of each stack).

    ``blocks``, ``segments`` and ``budget`` each choose the layers in another way: one of them, and
    then neither ``every`` nor ``layers``. ``placement`` is how a budget chooses (None: optimal).
    """

    name: ClassVar[str] = "checkpointing"
    equation: ClassVar[str] = "(18)–(20)"

    every: int | None = None
    layers: tuple[str, ...] | None = None  # names of the stacks; None: all of them
    blocks: tuple[str, ...] | None = None  # names of single layers, each dropped by itself
    segments: tuple[tuple[str, ...], ...] | None = None  # names of layers dropped together
    budget: str | None = None  # of activations: 2GiB; then the layers are measured and chosen
    placement: Literal["greedy", "chen", "optimal"] | None = None

    def __post_init__(self) -> None:
        if self.budget is not None and self.placement is None:
            object.__setattr__(self, "placement", "optimal")

    def plan(self, plan: Plan) -> Plan:
        self._refuse_what_has_no_effect()
        if self.every is not None and self.every < 1:
            raise TechniqueRefused(f"checkpointing: every={self.every}: at least 1")
        if self.placement not in ("greedy", "chen", "optimal", None):
            raise TechniqueRefused(
                f"checkpointing: placement={self.placement!r}: write greedy, chen or optimal"
            )
        if self.budget is not None and self.placement is not None:
            return replace(plan, activations=ActivationBudget(_bytes(self.budget), self.placement))
        segments = self.segments or tuple((name,) for name in self.blocks or ())

        def change(model: nn.Module) -> nn.Module:
            if self.blocks is None and self.segments is None:
                apply(model, self.every, self.layers)
            for names in segments:
                _join([model.get_submodule(name) for name in names])
            return model

        return replace(plan, models=(*plan.models, change))

    def _refuse_what_has_no_effect(self) -> None:
        if self.placement is not None and self.budget is None:
            raise TechniqueRefused(
                f"checkpointing: placement={self.placement} chooses layers for a budget: give one, "
                f"checkpointing(budget=2GiB,placement={self.placement}), or leave it out"
            )
        ways = [
            field
            for field in ("budget", "segments", "blocks", "every", "layers")
            if getattr(self, field) is not None
        ]
        if len(ways) > 1 and ways != ["every", "layers"]:
            raise TechniqueRefused(
                f"checkpointing: {ways[0]} chooses the layers by itself: leave "
                f"{' and '.join(ways[1:])} out"
            )

    def predicts(self, plan: Plan) -> str:
        if self.budget is not None:
            return f"activations ≤ {self.budget}; the forward of the layers that are dropped again"
        dropped = self.blocks or tuple(name for part in self.segments or () for name in part)
        if dropped:
            return f"activations of {len(dropped)} layers → their inputs; their forward again"
        every = "√L" if self.every is None else str(self.every)
        return f"activations of L layers → those of L/s + s (s = {every}); one more forward"


def _bytes(text: str) -> float:
    """``2GiB``, ``500MiB``. Raises TechniqueRefused."""
    match = re.fullmatch(r"([\d.]+)\s*([KMGT]?)(i?)B", text.strip())
    try:
        if match is None:
            raise ValueError
        power = " KMGT".index(match[2] or " ")
        return float(match[1]) * (1024.0 if match[3] else 1000.0) ** power
    except ValueError:
        raise TechniqueRefused(
            f"checkpointing: budget={text!r}: write bytes with a unit, such as 2GiB"
        ) from None


def stacks(model: nn.Module, names: Sequence[str] | None = None) -> dict[str, list[nn.Module]]:
    """Stacks of blocks of one class, by name: outermost ``Sequential`` and ``ModuleList``.

    Raises:
        TechniqueRefused: no module has one of the names, or there is no stack.
    """
    by_kind: dict[str, list[nn.Module]] = {}
    for name, module in model.named_modules():
        if names is not None:
            if name in names:
                by_kind[name] = list(module.children())
            continue
        if any(not outer or name.startswith(f"{outer}.") for outer in by_kind):
            continue
        blocks = list(module.children())
        alike = len({type(block) for block in blocks}) == 1 and len(blocks) >= _FEWEST
        deep = alike and any(True for _ in blocks[0].children())
        if isinstance(module, nn.Sequential | nn.ModuleList) and deep:
            by_kind[name] = blocks
    missing = set(names or ()) - set(by_kind)
    if missing or not by_kind:
        what = (
            f"the model has no {', '.join(sorted(missing))}"
            if missing
            else ("the model has no stack of like layers (an nn.Sequential or nn.ModuleList)")
        )
        raise TechniqueRefused(f"checkpointing: {what}; name them: Checkpointing(layers=('…',))")
    return by_kind


def segments(length: int, every: int | None) -> list[range]:
    """Places of layers that are dropped and run again together."""
    size = every or max(1, math.isqrt(length))
    return [range(at, min(at + size, length)) for at in range(0, length, size)]


def apply(model: nn.Module, every: int | None, names: Sequence[str] | None = None) -> None:
    """Checkpoint every stack of the model, in place. Raises TechniqueRefused."""
    for blocks in stacks(model, names).values():
        for segment in segments(len(blocks), every):
            _join([blocks[place] for place in segment])


def _join(blocks: list[nn.Module]) -> None:
    """Make the first block run all of these and drop their activations."""
    forwards = [block.forward for block in blocks]
    outputs: list[Any] = []
    statistics = [
        m
        for block in blocks
        for m in block.modules()
        if isinstance(m, nn.modules.batchnorm._BatchNorm)
    ]

    def chain(x: Any, *args: Any, **kwargs: Any) -> Any:
        out = x
        for number, forward in enumerate(forwards):
            out = forward(_first(out) if number else x, *args, **kwargs)
        return out

    def contexts() -> tuple[Any, Any]:
        return contextlib.nullcontext(), _frozen(statistics)

    def run_all(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            out = chain(x, *args, **kwargs)
        else:
            out = checkpoint(chain, x, *args, use_reentrant=False, context_fn=contexts, **kwargs)
        outputs[:] = [out] * (len(blocks) - 1)
        return out

    def pass_on(x: Any, *_args: Any, **_kwargs: Any) -> Any:
        if not outputs or _first(outputs[-1]) is not x:
            raise TechniqueRefused(
                "checkpointing: the layers of a stack do not follow each other directly; use "
                "Checkpointing(every=1), or name other layers"
            )
        return outputs.pop()

    blocks[0].forward = run_all
    for block in blocks[1:]:
        block.forward = pass_on


def _first(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) else out


@contextlib.contextmanager
def _frozen(norms: Sequence[Any]) -> Iterator[None]:
    """Running statistics of batch norms, which a second pass must not move again."""
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked = norm.num_batches_tracked.clone()
    try:
        yield
    finally:
        for norm, (momentum, tracked) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, tracked
