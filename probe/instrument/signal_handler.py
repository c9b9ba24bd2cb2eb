# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""Whom the wrappers around torch tell: one machine, or several as one.

Declared apart, so that compiled wrappers can call compiled machines without a lookup by name.
"""

from __future__ import annotations

from typing import Any


class Receiver:
    """Hears signals. What an ``x_begin`` returns goes to its ``x_end`` if it is true.

    None of them raises.
    """

    __slots__ = ()

    def data_begin(self) -> Any:
        """A loader is asked for a batch."""

    def data_end(self, token: Any, got: bool) -> None:
        """It gave one, or not."""

    def reduces(self, ddp: Any, reduces: bool) -> Any:
        """A forward of a DDP module begins whose gradients are to be summed up now, or not.

        True if gradients are wanted at all.
        """

    def backward_begin(self) -> Any:
        """The autograd engine is started."""

    def computed(self) -> None:
        """All gradients are: from now on this backward only waits for other ranks."""

    def backward_end(self, token: Any, done: bool) -> None:
        """The autograd engine returned; or raised, then not ``done``."""

    def recompute_begin(self) -> Any:
        """A checkpointed forward runs again."""

    def recompute_end(self, token: Any) -> None:
        """It did."""

    def communication_begin(self) -> Any:
        """A collective blocks, or is waited for."""

    def communication_end(self, token: Any) -> None:
        """It does no more."""

    def optimizer_begin(self, optimizer: Any, closure: bool) -> Any:
        """An optimizer steps, with a closure or without."""

    def optimizer_end(self, optimizer: Any) -> None:
        """It has stepped."""

    def wrapped_begin(self, optimizer: Any) -> Any:
        """A framework's own step (GradScaler, DeepSpeed) that may or may not step inside."""

    def wrapped_end(self, token: Any, optimizer: Any, closes: bool) -> None:
        """It ended; ``closes``: this was a step."""
