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

from .hooks import Hook
from .splitting import SplitMachine

KINDS = ("attention", "mlp", "convolution", "norm")
_ATTENTION = re.compile(r"attention", re.IGNORECASE)
_MLP = re.compile(r"mlp|feed_?forward|ffn", re.IGNORECASE)
_NORM = re.compile(r"(Batch|Layer|Group|Instance|RMS)Norm|Norm$")


class Split:
    """Hooks on the modules below a root, until ``remove``."""

    def __init__(self, machine: SplitMachine, root: nn.Module, code: Callable[[str], int]):
        """``code`` gives the ring's number of a phase's name."""
        self._handles = []
        for kind, module in _kinds(root):
            codes = code(f"forward/{kind}"), code(f"backward/{kind}")
            self._handles += [
                module.register_forward_pre_hook(_Enter(machine, id(module), codes).__exit__),
                module.register_forward_hook(_Leave(machine, id(module), codes).__exit__,
                                             always_call=True),
            ]

    def remove(self) -> None:
        """Leave the modules as they were."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


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
        elif getattr(child, "_compiled_call_impl", None) is None:
            yield kind, child


class _Inner(Hook):
    __slots__ = ("_codes",)

    def __init__(self, machine: SplitMachine | None, root: int, codes: tuple[int, int] = (0, 0)):
        super().__init__(machine, root)
        self._codes = codes


class _Enter(_Inner):
    __slots__ = ()

    def __exit__(self, module: nn.Module, args: Any) -> None:
        if is_compiling() or id(module) != self._root:
            return
        machine, backward = self._machine, self._codes[1]
        assert isinstance(machine, SplitMachine)
        machine.ahead(self._codes[0])
        _on_gradient(args, lambda: machine.behind(backward, ends=True))


class _Leave(_Inner):
    __slots__ = ()

    def __exit__(self, module: nn.Module, _args: Any, output: Any) -> None:
        if is_compiling() or id(module) != self._root:
            return
        machine, backward = self._machine, self._codes[1]
        assert isinstance(machine, SplitMachine)
        machine.ahead(0)
        _on_gradient(output, lambda: machine.behind(backward))


def _on_gradient(value: Any, act: Callable[[], None]) -> None:
    """Act when the gradient of the first tensor that will have one is there."""
    if isinstance(value, tuple | list):
        value = next((v for v in value if isinstance(v, torch.Tensor) and v.requires_grad), None)
    if isinstance(value, torch.Tensor) and value.requires_grad and not value.is_leaf:
        def hook(_gradient: torch.Tensor) -> None:
            act()

        value.register_hook(hook)  # type: ignore[no-untyped-call]
