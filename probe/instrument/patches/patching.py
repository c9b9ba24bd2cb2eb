"""How a name of torch is replaced, and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .wrappers import HookTarget

Wrap = Callable[[Any, "Session"], Callable[..., Any]]


class Session(HookTarget):
    """The patches of one period in which a machine listens; their wrappers look at ``machine``."""

    def patch(self, owner: Any, name: str, wrap: Wrap) -> None:
        """Let ``wrap(original, self)`` stand for ``owner.name``, if it exists, until the end."""
        original = getattr(owner, name, None)
        if original is not None:
            self.undo.append(replace(owner, name, wrap(original, self)))


def replace(owner: Any, name: str, by: Any) -> Callable[[], bool]:
    """Set ``owner.name``; returns an undo function, which gives False below a later patch."""
    raw = vars(owner).get(name)
    wrapper = staticmethod(by) if isinstance(raw, staticmethod) else by
    setattr(owner, name, wrapper)

    def undo() -> bool:
        if vars(owner).get(name) is not wrapper:
            return False  # stay below, as a pass-through
        if raw is None:
            delattr(owner, name)
        else:
            setattr(owner, name, raw)
        return True

    return undo
