"""Forward and backward told apart by kind of module: attention, MLP, convolution, norm. Opt-in.

Every such module costs four more marks a step (the report's overhead line counts them). A
module of one kind inside another belongs to the outer one. A module's backward is taken to begin
when the gradient of its output is there and to end when that of its input is: tensor hooks, which
change no gradient. On CUDA the backward runs in another thread, where kinds are not recorded.
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
from .state_machine import ModuleKindStateMachine

KINDS = ("attention", "mlp", "convolution", "norm")
_ATTENTION = re.compile(r"attention", re.IGNORECASE)
_MLP = re.compile(r"mlp|feed_?forward|ffn", re.IGNORECASE)
_NORM = re.compile(r"(Batch|Layer|Group|Instance|RMS)Norm|Norm$")


class KindListeners:
    """Listens to the modules below a root, until ``remove``."""

    def __init__(
        self, machine: ModuleKindStateMachine, root: nn.Module, code: Callable[[str], int]
    ):
        """``code`` gives the ring's number of a phase's name."""
        self._listening = [
            Listening(
                module, _KindListener(machine, code(f"forward/{kind}"), code(f"backward/{kind}"))
            )
            for kind, module in _kinds(root)
        ]

    def remove(self) -> None:
        """Leave the modules' classes as they were."""
        for listening in self._listening:
            listening.remove()
        self._listening.clear()


def kind_of(name: str, module: nn.Module) -> str | None:
    """The kind of a module with the name that its parent gives it; None: another kind."""
    class_name = type(module).__name__
    if isinstance(module, nn.MultiheadAttention) or _ATTENTION.search(class_name):
        return "attention"
    if _MLP.search(class_name) or _MLP.fullmatch(name):
        return "mlp"
    if isinstance(module, nn.modules.conv._ConvNd):
        return "convolution"
    return "norm" if _NORM.search(class_name) else None


def _kinds(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.named_children():
        kind = kind_of(name, child)
        if kind is None:
            yield from _kinds(child)
        else:
            yield kind, child


class _KindListener(Listener):
    """Tells the machine when a module and its gradients begin and end."""

    def __init__(self, machine: ModuleKindStateMachine, forward: int, backward: int):
        self._machine, self._forward, self._backward = machine, forward, backward

    def begin(self, args: Any) -> None:
        self._note(
            self._forward, args, lambda: self._machine.backward_kind(self._backward, ends=True)
        )

    def end(self, output: Any) -> None:
        self._note(0, output, lambda: self._machine.backward_kind(self._backward))

    def _note(self, code: int, value: Any, on_gradient: Callable[[], None]) -> None:
        if is_compiling():
            return
        try:
            self._machine.forward_kind(code)
            _on_gradient(value, on_gradient)
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
