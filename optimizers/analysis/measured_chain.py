"""A model's stacks of layers as a chain: what each layer keeps, is given, and how long it takes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..errors import TechniqueRefused
from ..plan import Loss
from .memory import hooked, storage_id, tensors_in
from .segments import Chain

_ROUNDS = 6
_OUTSIDE = -1  # of all layers


@dataclass(slots=True)
class _Kept:
    """Which layers keep which storages for backward, and which are a layer's input."""

    sizes: dict[int, int] = field(default_factory=dict)  # bytes by storage
    keepers: dict[int, set[int]] = field(default_factory=dict)  # by storage
    inputs: dict[int, set[int]] = field(default_factory=dict)  # storages by layer


def chain_of(
    model: nn.Module, blocks: Sequence[nn.Module], ends: Sequence[int], loss: Loss, batch: Any
) -> Chain:
    """Run the forward some times; buffers and torch's random state are put back.

    Args:
        blocks: layers in the order that they run; not checkpointed yet.
        ends: places at which a stack of them ends.

    Raises:
        TechniqueRefused: they do not run once each, in this order.
    """
    with _put_back(model):
        kept = _watched(model, blocks, loss, batch)
        seconds = _seconds(model, blocks, loss, batch)
    length = len(blocks)
    inside, given, outputs = [0] * length, [0] * length, [0] * length
    needed = [False] * length
    rest = 0
    for storage, size in kept.sizes.items():
        keepers = kept.keepers.get(storage, set())
        into = [layer for layer, storages in kept.inputs.items() if storage in storages]
        if len(into) == 1 and keepers <= {into[0], into[0] - 1} - {_OUTSIDE}:
            layer = into[0]
            given[layer] += size
            needed[layer] |= bool(keepers)
            if layer and layer - 1 in keepers:
                outputs[layer - 1] += size
        elif not into and len(keepers) == 1 and _OUTSIDE not in keepers:
            inside[min(keepers)] += size
        else:  # of the model's ends, or of several layers, such as a mask: held whatever is dropped
            rest += size
    return Chain(inside, given, seconds, rest, needed, outputs, tuple(ends))


def _watched(model: nn.Module, blocks: Sequence[nn.Module], loss: Loss, batch: Any) -> _Kept:
    """See what one forward keeps, storage by storage."""
    resident = (*model.parameters(), *model.buffers(), *tensors_in(batch))
    ignored = {storage_id(tensor) for tensor in resident}
    places = {id(block): place for place, block in enumerate(blocks)}
    kept = _Kept()
    running, order = [_OUTSIDE], list[int]()
    alive: list[torch.Tensor] = []  # or another tensor could get a freed storage's number

    def count(tensor: torch.Tensor) -> int | None:
        key = storage_id(tensor)
        if key in ignored:
            return None
        alive.append(tensor.detach())
        kept.sizes[key] = tensor.untyped_storage().nbytes()
        return key

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        key = count(tensor)
        if key is not None:
            kept.keepers.setdefault(key, set()).add(running[-1])
        return tensor

    def before(block: nn.Module, given: Any) -> None:
        place = places[id(block)]
        order.append(place)
        running.append(place)
        keys = {count(tensor) for tensor in tensors_in(given)}
        kept.inputs[place] = {key for key in keys if key is not None}

    def after(_block: nn.Module, _given: Any, _out: Any) -> None:
        running.pop()

    with (
        torch.enable_grad(),
        hooked(blocks, before, after),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        value = loss(model, batch)  # held until the end: it holds what autograd keeps
    del value
    if order != list(range(len(blocks))):
        raise TechniqueRefused(
            "checkpointing: the layers of the model's stacks do not run once each, one after the "
            "other, so a budget cannot be planned; use Checkpointing(every=1), or name blocks="
        )
    return kept


def _seconds(model: nn.Module, blocks: Sequence[nn.Module], loss: Loss, batch: Any) -> list[float]:
    """Forward time of each block: the shortest, for other work on the machine only adds to it."""
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
    return [min(times[id(block)]) for block in blocks]


@contextlib.contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    """Buffers (running statistics) and torch's random state are afterwards what they were."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        with torch.random.fork_rng():
            yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
