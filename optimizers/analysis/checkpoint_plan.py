"""Which layers to run again so that activations fit a budget, at the least cost in time.

√L asks nothing of the model. This measures every layer: what it keeps, what it is given and how
long its forward takes; :mod:`segments` then chooses, by one of three methods, and
:mod:`free_schedule` says how far the choice is from all schedules that could be thought of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from probe.report.model import JsonValue
from probe.report.numbers import data_size

from ..errors import TechniqueRefused
from ..plan import Loss
from ..techniques.checkpointing import Checkpointing, stacks
from .free_schedule import MOST_LAYERS_FREE, bound
from .measured_chain import chain_of
from .segments import METHODS, MOST_LAYERS, Chain, Method, added, choose, least, peak


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
        if dropped is None:
            lowest = least(self.chain)
            advice = "smaller micro-batches (accumulation)"
            if lowest <= budget_bytes:
                advice = "placement=optimal"
            raise TechniqueRefused(
                f"checkpointing: no plan of placement={method} fits activations into "
                f"{data_size(budget_bytes)}; the least possible is {data_size(lowest)} "
                f"({round(lowest)} bytes): {advice}"
            )
        return Placement(
            tuple(tuple(self.names[layer] for layer in segment) for segment in dropped),
            round(peak(self.chain, dropped)),
            added(self.chain, dropped),
            method,
        )

    def every(self, budget_bytes: float) -> dict[Method, Placement | None]:
        """What each method does with the budget; None: no plan of it fits."""
        placements: dict[Method, Placement | None] = {}
        for method in METHODS:
            try:
                placements[method] = self.place(budget_bytes, method)
            except TechniqueRefused:
                placements[method] = None
        return placements

    def as_json(
        self, placement: Placement, budget_bytes: float, micro_batches: float
    ) -> dict[str, JsonValue]:
        """What was chosen, and what it is predicted to cost; for run.json.

        Args:
            micro_batches: of a step.
        """
        return {
            "method": placement.method,
            "budget_bytes": budget_bytes,
            "peak_bytes": placement.bytes,
            "again": [list(segment) for segment in placement.segments],
            "forward_s": dict(zip(self.names, self.chain.seconds, strict=True)),
            "again_s_per_micro_batch": placement.seconds,
            "again_s_per_step": micro_batches * placement.seconds,
        }

    def table(
        self,
        placements: Mapping[Method, Placement | None],
        chosen: Method,
        budget_bytes: float,
        micro_batches: float = 1,
    ) -> str:
        """What each method would do, the chosen one marked; for a terminal."""
        lines = [f"checkpointing for activations of {data_size(budget_bytes)}"]
        for method, placement in placements.items():
            mark = "→" if method == chosen else " "
            if placement is None:
                lines.append(f"  {mark} {method:<8} no plan fits")
                continue
            lines.append(
                f"  {mark} {method:<8} {1e3 * placement.seconds:.1f} ms a micro-batch, "
                f"{1e3 * micro_batches * placement.seconds:.1f} ms a step, peak "
                f"{data_size(placement.bytes)}, again: {_shortly(placement.segments)}"
            )
        return "\n".join([*lines, f"    {self._bound_line(budget_bytes)}"])

    def _bound_line(self, budget_bytes: float) -> str:
        if len(self.chain) > MOST_LAYERS_FREE:
            return f"no bound of all schedules: it is solved for up to {MOST_LAYERS_FREE} layers"
        free = bound(self.chain, budget_bytes)
        if free is None:
            return "no schedule fits"
        about = "" if free.exact else " (not proved in time: the true bound may be higher)"
        return f"no schedule adds less than {1e3 * free.seconds:.1f} ms{about}"


def measure(model: nn.Module, loss: Loss, batch: Any) -> Measured:
    """Run the model's forward some times and measure its layers; it must not be checkpointed yet.

    Gradients, buffers and torch's random state are afterwards what they were.

    Raises:
        TechniqueRefused: it has no stack of like layers, or they do not follow each other.
    """
    names = {id(module): name for name, module in model.named_modules()}
    of_stacks = list(stacks(model).values())
    blocks = [block for stack in of_stacks for block in stack]
    ends, at = [], 0
    for stack in of_stacks:
        at += len(stack)
        ends.append(at)
    in_order = tuple(names[id(block)] for block in blocks)
    return Measured(in_order, chain_of(model, blocks, ends, loss, batch))


def place(
    model: nn.Module, loss: Loss, batch: Any, budget_bytes: float, method: Method = "optimal"
) -> Placement:
    """Measure the layers of all the model's stacks and choose which to drop.

    Raises:
        TechniqueRefused: no plan of this method fits.
    """
    return measure(model, loss, batch).place(budget_bytes, method)


def _shortly(segments: Sequence[tuple[str, ...]]) -> str:
    """``1.0–1.2 + 1.5``: the first and last layer of each segment."""
    ends = [segment if len(segment) == 1 else (segment[0], segment[-1]) for segment in segments]
    return " + ".join("–".join(names) for names in ends) or "nothing"
