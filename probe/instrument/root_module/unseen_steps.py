"""Steps that no optimizer reports: of loops that write parameters themselves, of compiled ones.

After a backward a parameter that got a gradient is remembered; if it has been written when the next
batch, forward or backward begins, a step lies between. What ``.data`` is given changes no version,
so on the host one value is looked at, too; on a device that would be a synchronisation, and the
gradient's being dropped or zeroed has to do.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

_NODES = 4096  # of a graph that are looked at for a parameter
_LARGEST = 1 << 16  # elements of a parameter that is small


@dataclass(slots=True)
class _Tracked:
    """A parameter as it was right after a backward."""

    reference: Callable[[], Any]
    version: int
    gradient: bool  # it had one
    gradient_version: int
    place: int  # of an element with a gradient; -1: none is looked at
    value: float

    @classmethod
    def of(cls, parameter: Any, accumulated: bool) -> _Tracked:
        gradient = parameter.grad if accumulated else None
        place, value = -1, 0.0
        if _is_plain(parameter) and 0 < parameter.numel() <= _LARGEST:
            place = 0
            if gradient is not None and _is_plain(gradient):
                place = int(gradient.detach().abs().argmax())
            value = float(parameter.detach().reshape(-1)[place])
        return cls(
            # What is small is kept: at the training's end its last step is still looked for.
            (lambda: parameter) if parameter.numel() <= _LARGEST else weakref.ref(parameter),
            parameter._version,
            gradient is not None,
            -1 if gradient is None else gradient._version,
            place,
            value,
        )

    def changed(self, by_gradient: bool) -> bool:
        """Whether it was written; ``by_gradient``: take a gradient's being dropped for that."""
        parameter = self.reference()
        if parameter is None:
            return False
        if parameter._version != self.version:
            return True
        if self.place >= 0:
            return float(parameter.detach().reshape(-1)[self.place]) != self.value
        if not (by_gradient and self.gradient):
            return False
        gradient = parameter.grad
        return gradient is None or gradient._version != self.gradient_version


def _is_plain(tensor: Any) -> bool:
    """Whether a look at a value costs little: on the host, dense, and not shared among ranks."""
    kinds = (torch.Tensor, torch.nn.Parameter)
    return type(tensor) in kinds and tensor.device.type == "cpu" and tensor.layout == torch.strided


class UnseenSteps:
    """Whether parameters were written since the last backward."""

    def __init__(self) -> None:
        self.backwards = 0
        self.steps = 0
        self._tracked: list[_Tracked] = []

    def forget(self) -> None:
        """Let go of the parameters that are looked at."""
        self._tracked = []

    def after_backward(self, outputs: Any, accumulated: bool) -> None:
        """Remember a parameter that the backward of ``outputs`` gave a gradient."""
        self.backwards += 1
        # One that was seen before costs no look into the graph.
        leaves = [p for p in self.parameters() if not accumulated or p.grad is not None] or _leaves(
            outputs
        )
        self._tracked = [_Tracked.of(leaf, accumulated) for leaf in leaves[:1]]

    def changed(self, by_gradient: bool) -> bool:
        """Whether a step lies between the last backward and now."""
        return any(tracked.changed(by_gradient) for tracked in self._tracked)

    def parameters(self) -> list[Any]:
        """Those that are looked at."""
        return [p for tracked in self._tracked if (p := tracked.reference()) is not None]


def _leaves(outputs: Any) -> list[Any]:
    """The first parameter of the graph of some tensors, smallest of those found first."""
    if not isinstance(outputs, (tuple, list)):
        outputs = (outputs,)
    nodes = deque(n for o in outputs if (n := getattr(o, "grad_fn", None)) is not None)
    seen: set[Any] = set(nodes)
    leaves: list[Any] = []
    while nodes and len(seen) < _NODES and len(leaves) < 8:
        node = nodes.popleft()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves.append(leaf)
        for inner, _ in node.next_functions:
            if inner is not None and inner not in seen:
                seen.add(inner)
                nodes.append(inner)
    return sorted(leaves, key=lambda leaf: leaf.numel())
