"""Forward and backward told apart by kind of module: attention, MLP, convolution, norm. Opt-in.

Every such module costs four more marks a step (the report's overhead line reckons with them). A
module of one kind inside another belongs to the outer one. A module's backward is taken to begin
when the gradient of its output is there and to end when that of its input is: tensor hooks, which
change no gradient. On CUDA the backward runs in a thread of its own and is not told apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling

from ..patches.module_call import Listening
from ..patches.wrappers import Listener
from .state_machine import SplitMachine

KINDS = ("attention", "mlp", "convolution", "norm")
_ATTENTION = re.compile(r"attention", re.IGNORECASE)
_MLP = re.compile(r"mlp|feed_?forward|ffn", re.IGNORECASE)
_NORM = re.compile(r"(Batch|Layer|Group|Instance|RMS)Norm|Norm$")


class Split:
    """Listens to the modules below a root, until ``remove``."""

    def __init__(self, machine: SplitMachine, root: nn.Module, code: Callable[[str], int]):
        """``code`` gives the ring's number of a phase's name."""
        self._listening = [
            Listening(module, _Inner(machine, code(f"forward/{kind}"), code(f"backward/{kind}")))
            for kind, module in _kinds(root)
        ]

    def remove(self) -> None:
        """Leave the modules' classes as they were."""
        for one in self._listening:
            one.remove()
        self._listening.clear()


def kind_of(name: str, module: nn.Module) -> str | None:
    """Of a module and the name that its parent gives it; None: of none of the kinds."""
    said = type(module).__name__
    if isinstance(module, nn.MultiheadAttention) or _ATTENTION.search(said):
        return "attention"
    if _MLP.search(said) or _MLP.fullmatch(name):
        return "mlp"
    if isinstance(module, nn.modules.conv._ConvNd):
        return "convolution"
    return "norm" if _NORM.search(said) else None


def _kinds(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.named_children():
        kind = kind_of(name, child)
        if kind is None:
            yield from _kinds(child)
        else:
            yield kind, child


class _Inner(Listener):
    """Of one module: when it begins and ends, and its gradients do."""

    def __init__(self, machine: SplitMachine, ahead: int, behind: int):
        self._machine, self._ahead, self._behind = machine, ahead, behind

    def begin(self, args: Any) -> None:
        self._tell(self._ahead, args, lambda: self._machine.behind(self._behind, ends=True))

    def end(self, output: Any) -> None:
        self._tell(0, output, lambda: self._machine.behind(self._behind))

    def _tell(self, code: int, value: Any, behind: Callable[[], None]) -> None:
        if is_compiling():
            return
        try:
            self._machine.ahead(code)
            _on_gradient(value, behind)
        except Exception as error:
            self._machine.fail(error)


def _on_gradient(value: Any, act: Callable[[], None]) -> None:
    """Act when the gradient of the first tensor that will have one is there."""
    if isinstance(value, tuple | list):
        value = next((v for v in value if isinstance(v, torch.Tensor) and v.requires_grad), None)
    if isinstance(value, torch.Tensor) and value.requires_grad and not value.is_leaf:

        def hook(_gradient: torch.Tensor) -> None:
            act()

        value.register_hook(hook)  # type: ignore[no-untyped-call]
