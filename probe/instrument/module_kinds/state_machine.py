"""A state machine whose forward and backward bear the name of the module that runs.

Needs no torch; :mod:`listeners` says which module it is.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

from ...ring.layout import Code
from ..training_threads import FirstMachine

FORWARD, BACKWARD = int(Code.FORWARD), int(Code.BACKWARD)


class ModuleKindStateMachine(FirstMachine):
    """Lets forward and backward bear the name of a kind of module."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._forward_kind = self._backward_kind = 0  # code of the kind that runs; 0: no such one

    def base(self) -> int:
        """The phase that the flags say, down to the kind of module."""
        code = super().base()
        if code == FORWARD:
            return self._forward_kind or code
        return (self._backward_kind or code) if code == BACKWARD else code

    def forward_begin(self, root: int, module: Any) -> None:
        self._forward_kind = 0
        super().forward_begin(root, module)

    def forward_end(self, root: int) -> None:
        self._forward_kind = 0
        super().forward_end(root)

    def backward_begin(self, accumulates: bool = True) -> Any:
        if get_ident() == self.thread and not self._backward:
            self._backward_kind = 0
        return super().backward_begin(accumulates)

    def forward_kind(self, code: int) -> None:
        """In forward, a module of the kind ``code`` runs now; 0: none."""
        try:
            if self._forward == FORWARD and not self._backward and get_ident() == self.thread:
                self._forward_kind = code
                self.mark()
        except Exception as error:
            self.fail(error)

    def backward_kind(self, code: int, *, ends: bool = False) -> None:
        """In backward, gradients of the kind ``code`` begin; or end, if they still run."""
        try:
            if (
                self._backward
                and get_ident() == self.thread
                and (not ends or self._backward_kind == code)
            ):
                self._backward_kind = 0 if ends else code
                self.mark()
        except Exception as error:
            self.fail(error)
