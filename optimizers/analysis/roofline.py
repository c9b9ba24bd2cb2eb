"""Which part of a step waits for memory: every operation against the device's roofline.

One step is run on the ``meta`` device, where nothing is computed. An operation of f floating-point
operations that moves b bytes takes at least max(f/F, b/B) seconds on a device that computes F
operations and moves B bytes per second (Williams et al., 2009, "Roofline"); it is memory-bound
where b/B is the larger. F and B are measured, on this device, in this precision. A compiler that
fuses operations moves fewer bytes than are counted here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry

from probe.instrument.roofline.ridge import Ridge

from ..plan import Loss, Plan, Precision
from .flops import ATTENTION, Substitute
from .memory import storage_id, tensors_in


@dataclass(frozen=True, slots=True)
class _Op:
    """One operation of a step: which phase, how much arithmetic, how many bytes."""

    phase: str
    flops: float
    moved: float


class _OpRecorder(TorchDispatchMode):
    """Records every operation that moves anything."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = "forward"
        self.ops: list[_Op] = []

    def __torch_dispatch__(
        self, op: Any, _types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        output = op(*args, **kwargs)
        read, written = tensors_in((args, kwargs)), tensors_in(output)
        storages = {storage_id(tensor) for tensor in read}
        if not op._schema.is_mutable and all(storage_id(tensor) in storages for tensor in written):
            return output  # a view moves nothing
        counts: Any = ATTENTION.get(op._overloadpacket) or flop_registry.get(op._overloadpacket)
        flops = float(counts(*args, **kwargs, out_val=output)) if counts is not None else 0.0
        moved = float(sum(tensor.nbytes for tensor in (*read, *written)))
        self.ops.append(_Op(self.phase, flops, moved))
        return output


def memory_bound(
    model: nn.Module, loss: Loss, sample: Any, size: int, plan: Plan, ridge: Ridge
) -> dict[str, float] | None:
    """Phase → part of its roofline time that waits for memory; None if it cannot be counted.

    What an operation does and moves grows by the same amount with every sample, beside what it
    moves anyway (the weights). So two small batches determine a batch of ``size``. A model that
    looks at values cannot run on ``meta``; the small batches are computed for real, on the device.

    Args:
        sample: a batch of one.
    """
    for real in (False, True):
        try:
            two, three = (
                _step(model, loss, sample, number, plan.device if real else "meta")
                for number in (2, 3)
            )
        except Exception:  # the training will say what is wrong
            continue
        if [op.phase for op in two] != [op.phase for op in three]:
            return None
        ops = [
            _Op(
                a.phase,
                a.flops + (size - 2) * (b.flops - a.flops),
                a.moved + (size - 2) * (b.moved - a.moved),
            )
            for a, b in zip(two, three, strict=True)
        ]
        return _shares(ops, plan.precision, ridge)
    return None


def _shares(ops: Iterable[_Op], precision: Precision, ridge: Ridge) -> dict[str, float]:
    total: dict[str, float] = {}
    bound: dict[str, float] = {}
    for op in ops:
        moved = op.moved
        # Counted as fp32: autocast halves what matrix products move, master halves everything.
        if precision.mode == "master" or (precision.mode == "autocast" and op.flops):
            moved *= precision.dtype.itemsize / 4
        compute_s, memory_s = op.flops / ridge.flops_per_s, moved / ridge.bytes_per_s
        total[op.phase] = total.get(op.phase, 0.0) + max(compute_s, memory_s)
        bound[op.phase] = bound.get(op.phase, 0.0) + (memory_s if memory_s > compute_s else 0.0)
    return {phase: bound[phase] / seconds for phase, seconds in total.items() if seconds > 0}


def _step(model: nn.Module, loss: Loss, sample: Any, number: int, device: str) -> list[_Op]:
    """Forward and backward of a batch of so many; the model's own tensors stay as they are."""

    def there(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to(device)

    batch = tree_map_only(torch.Tensor, lambda t: there(torch.cat([t] * number)), sample)
    substitute, recorder = Substitute(model, there), _OpRecorder()
    with recorder:
        value = loss(substitute, batch)
        recorder.phase = "backward"
        value.backward()
    return recorder.ops
