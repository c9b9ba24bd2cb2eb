"""Forward hooks of the root module: no residue in copies, pickles, graphs or scripts.

Dynamo inlines this file and ``signals.py``; all others of this package it is told to skip.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.compiler import is_compiling

if TYPE_CHECKING:
    from .machine import Machine


def _nothing() -> Any:
    # Not one of our functions: a model that was pickled while it was watched must load
    # where phasewatt is not installed.
    return contextlib.nullcontext().__exit__


class _Hook:
    """A forward hook of one module. Copies and pickles of it do nothing."""

    __slots__ = ("__weakref__", "_machine", "_root")

    def __init__(self, machine: Machine, root: int):
        self._machine, self._root = machine, root

    def __deepcopy__(self, _memo: dict[int, Any]) -> Any:
        return _nothing()

    def __copy__(self) -> Any:
        return _nothing()

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")


class _Before(_Hook):
    __slots__ = ()

    def __call__(self, module: nn.Module, _args: Any) -> None:
        if is_compiling() or id(module) != self._root:
            return
        self._machine.forward_begin(self._root)


class _After(_Hook):
    __slots__ = ()

    def __call__(self, module: nn.Module, _args: Any, _output: Any) -> None:
        if is_compiling() or id(module) != self._root:
            return
        self._machine.forward_end(self._root)


class Root:
    """Forward hooks on one module instance, until ``remove``."""

    def __init__(self, machine: Machine, module: nn.Module):
        self.module = weakref.ref(module)
        self._handles = [
            module.register_forward_pre_hook(_Before(machine, id(module)), prepend=True),
            module.register_forward_hook(_After(machine, id(module)), always_call=True),
        ]

    def remove(self) -> None:
        """Leave the module as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


@contextlib.contextmanager
def hidden(module: nn.Module) -> Iterator[None]:
    """The module without our hooks, for those who would compile them."""
    taken = []
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        before = list(hooks.items())
        if any(isinstance(hook, _Hook) for _, hook in before):
            taken.append((hooks, before))
            for key, hook in before:
                if isinstance(hook, _Hook):
                    del hooks[key]
    try:
        yield
    finally:
        for hooks, before in taken:
            hooks.clear()
            hooks.update(before)
