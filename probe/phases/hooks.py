"""Forward hooks of the root module: no residue in copies, pickles, graphs or scripts.

Dynamo inlines this file and ``signals.py``; all others of this package it is told to skip.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.compiler import is_dynamo_compiling

if TYPE_CHECKING:
    from .machine import Machine


class Hook:
    """One forward hook of one module: its bound ``__exit__``, a name chosen with care.

    A model that was pickled while it was watched must load where phasewatt is not
    installed. A bound method is pickled as its object and its name; the object reduces
    to a ``nullcontext``, which has an ``__exit__`` too, one that does nothing.
    """

    __slots__ = ("_machine", "_root")

    def __init__(self, machine: Machine | None, root: int):
        self._machine, self._root = machine, root

    def __deepcopy__(self, _memo: dict[int, Any]) -> Hook:
        return type(self)(None, 0)

    def __reduce__(self) -> Any:
        return contextlib.nullcontext, ()


class _Before(Hook):
    __slots__ = ()

    def __exit__(self, module: nn.Module, _args: Any) -> None:
        if is_dynamo_compiling() or id(module) != self._root:
            return
        self._machine.forward_begin(self._root)  # type: ignore[union-attr]  # root 0: no module


class _After(Hook):
    __slots__ = ()

    def __exit__(self, module: nn.Module, _args: Any, _output: Any) -> None:
        if is_dynamo_compiling() or id(module) != self._root:
            return
        self._machine.forward_end(self._root)  # type: ignore[union-attr]


class Root:
    """Forward hooks on one module instance, until ``remove``."""

    def __init__(self, machine: Machine, module: nn.Module):
        self.module = weakref.ref(module)
        self._handles = [
            module.register_forward_pre_hook(_Before(machine, id(module)).__exit__, prepend=True),
            module.register_forward_hook(_After(machine, id(module)).__exit__, always_call=True),
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
        if any(_is_ours(hook) for _, hook in before):
            taken.append((hooks, before))
            for key, hook in before:
                if _is_ours(hook):
                    del hooks[key]
    try:
        yield
    finally:
        for hooks, before in taken:
            hooks.clear()
            hooks.update(before)


def _is_ours(hook: Any) -> bool:
    return isinstance(getattr(hook, "__self__", None), Hook)
