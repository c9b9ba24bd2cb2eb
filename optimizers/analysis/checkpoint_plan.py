"""Which layers to run again so that activations fit a budget, at the least cost in time.

√L asks nothing of the model. This measures every layer: what it keeps, what it is given and how
long its forward takes; :mod:`segments` then chooses, by one of three methods.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from probe.report.numbers import data_size

from ..errors import TechniqueRefused
from ..plan import Loss
from ..techniques.checkpointing import Checkpointing, stacks
from .memory import hooked, kept
from .segments import METHODS, MOST_LAYERS, Chain, Dropped, Method, added, choose, peak

_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Placement:
    """Segments of layers to drop, by name; peak bytes of activations; forward seconds added."""

    segments: tuple[tuple[str, ...], ...]
    bytes: int
    seconds: float
    method: Method = "optimal"

    @property
    def blocks(self) -> tuple[str, ...]:
        """All layers that are dropped."""
        return tuple(name for segment in self.segments for name in segment)

    def technique(self) -> Checkpointing:
        """To be put into a stack."""
        return Checkpointing(segments=self.segments)


@dataclass(frozen=True, slots=True)
class Measured:
    """The layers of a model's stacks as a chain, with their names."""

    names: tuple[str, ...]
    chain: Chain
    stack_ends: tuple[int, ...]  # a segment must not reach from one stack into the next

    def place(self, budget_bytes: float, method: Method = "optimal") -> Placement:
        """Choose what to drop.

        Raises:
            TechniqueRefused: no plan of this method fits the budget; one line says what would.
        """
        if method == "optimal" and len(self.chain) > MOST_LAYERS:
            raise TechniqueRefused(
                f"checkpointing: {len(self.chain)} layers are too many for placement=optimal "
                f"(up to {MOST_LAYERS}): placement=chen"
            )
        dropped = choose(self.chain, budget_bytes, method)
        dropped = None if dropped is None else self._within_stacks(dropped)
        if dropped is None or peak(self.chain, dropped) > budget_bytes:
            least = peak(self.chain, tuple(range(i, i + 1) for i in range(len(self.chain))))
            raise TechniqueRefused(
                f"checkpointing: with every layer dropped activations take {data_size(least)}, the "
                f"budget is {data_size(budget_bytes)} (placement={method}): smaller micro-batches "
                "(accumulation)"
            )
        return self._placement(dropped, method)

    def every(self, budget_bytes: float) -> dict[Method, Placement | None]:
        """What each method does with the budget; None: no plan of it fits."""
        placements: dict[Method, Placement | None] = {}
        for method in METHODS:
            try:
                placements[method] = self.place(budget_bytes, method)
            except TechniqueRefused:
                placements[method] = None
        return placements

    def _placement(self, dropped: Dropped, method: Method) -> Placement:
        return Placement(
            tuple(tuple(self.names[layer] for layer in segment) for segment in dropped),
            round(peak(self.chain, dropped)),
            added(self.chain, dropped),
            method,
        )

    def _within_stacks(self, dropped: Dropped) -> Dropped:
        """The segments, cut where a stack ends: less is run at once, a further input is held."""
        parts = []
        for segment in dropped:
            ends = [end for end in self.stack_ends if segment[0] < end <= segment[-1]]
            for begin, end in zip([segment[0], *ends], [*ends, segment[-1] + 1], strict=True):
                parts.append(range(begin, end))
        return tuple(parts)


def measure(model: nn.Module, loss: Loss, batch: Any) -> Measured:
    """Run the model's forward some times and measure its layers; it must not be checkpointed yet.

    Raises:
        TechniqueRefused: it has no stack of like layers.
    """
    names = {id(module): name for name, module in model.named_modules()}
    of_stacks = list(stacks(model).values())
    blocks = [block for stack in of_stacks for block in stack]
    measured = kept(model, blocks, loss, batch)
    ends, at = [], 0
    for stack in of_stacks:
        at += len(stack)
        ends.append(at)
    return Measured(
        tuple(names[id(block)] for block in blocks),
        Chain(
            measured.blocks, measured.inputs, _seconds(model, blocks, loss, batch), measured.rest
        ),
        tuple(ends),
    )


def place(
    model: nn.Module, loss: Loss, batch: Any, budget_bytes: float, method: Method = "optimal"
) -> Placement:
    """Measure the layers of all the model's stacks and choose which to drop.

    Raises:
        TechniqueRefused: no plan of this method fits.
    """
    return measure(model, loss, batch).place(budget_bytes, method)


def table(placements: dict[Method, Placement | None], chosen: Method, budget_bytes: float) -> str:
    """What each method would do, the chosen one marked; for a terminal."""
    lines = [f"checkpointing for activations of {data_size(budget_bytes)}"]
    for method, placement in placements.items():
        mark = "→" if method == chosen else " "
        if placement is None:
            lines.append(f"  {mark} {method:<8} no plan fits")
            continue
        lines.append(
            f"  {mark} {method:<8} {len(placement.blocks)} layers in {len(placement.segments)} "
            f"segments again, {1e3 * placement.seconds:.1f} ms a micro-batch, peak "
            f"{data_size(placement.bytes)}"
        )
    return "\n".join(lines)


def _seconds(model: nn.Module, blocks: Sequence[nn.Module], loss: Loss, batch: Any) -> list[float]:
    """Forward time of each block."""
    begins: dict[int, float] = {}
    times: dict[int, list[float]] = {id(block): [] for block in blocks}

    def now() -> float:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter()

    def before(block: nn.Module, _given: Any) -> None:
        begins[id(block)] = now()

    def after(block: nn.Module, _given: Any, _out: Any) -> None:
        times[id(block)].append(now() - begins[id(block)])

    with hooked(blocks, before, after), torch.no_grad():
        for _ in range(_ROUNDS):
            loss(model, batch)
    return [statistics.median(times[id(block)]) for block in blocks]
