# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""A machine whose forward and backward bear the name of the module that runs. Without torch.

:mod:`modules` tells it which.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:
    from ...ring import pure as cython

from ...ring.layout import Code
from ..state_machine import Machine

if not cython.compiled:
    from threading import get_ident

FORWARD, BACKWARD = int(Code.FORWARD), int(Code.BACKWARD)


class SplitMachine(Machine):
    """A machine whose forward and backward may bear the name of a kind of module."""

    __slots__ = ("_ahead", "_behind")

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._ahead = self._behind = 0  # what runs in forward, in backward; 0: no such module

    def base(self) -> int:
        """The phase that the flags say, down to the kind of module."""
        code = Machine.base(self)  # super() has no class in a compiled one
        if code == FORWARD:
            return self._ahead or code
        return (self._behind or code) if code == BACKWARD else code

    def forward_begin(self, root: int) -> None:
        self._ahead = 0
        Machine.forward_begin(self, root)

    def forward_end(self, root: int) -> None:
        self._ahead = 0
        Machine.forward_end(self, root)

    def backward_begin(self) -> Any:
        if get_ident() == self.thread and not self._backward:
            self._behind = 0
        return Machine.backward_begin(self)

    def ahead(self, code: int) -> None:
        """In forward: a module of that kind runs now; 0: none."""
        try:
            if self._forward == FORWARD and not self._backward and get_ident() == self.thread:
                self._ahead = code
                self.mark(self.base())
        except Exception as error:
            self.fail(error)

    def behind(self, code: int, *, ends: bool = False) -> None:
        """In backward: gradients of a module of that kind begin, or end if it is still theirs."""
        try:
            if self._backward and get_ident() == self.thread and (not ends or self._behind == code):
                self._behind = 0 if ends else code
                self.mark(self.base())
        except Exception as error:
            self.fail(error)
