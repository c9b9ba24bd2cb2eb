"""How a name of torch is replaced, and put back."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .wrappers import HookTarget

if TYPE_CHECKING:
    from ..state_machine import PhaseStateMachine
    from ..transfers import Transfers

Wrap = Callable[[Any, "Session"], Callable[..., Any]]


class Session(HookTarget):
    """The patches of one period in which a machine listens; their wrappers look at ``machine``."""

    transfers: Transfers | None = None  # who hears of sends and receives
    owner: PhaseStateMachine | None = None  # the machine that was attached

    def patch(self, owner: Any, name: str, wrap: Wrap) -> None:
        """Let ``wrap(original, self)`` stand for ``owner.name``, if it exists, until the end."""
        original = getattr(owner, name, None)
        if original is None:
            return
        wrapper = wrap(original, self)
        if isinstance(owner, ModuleType):
            # Where pickle looks for a function; other modules may hold it by the same name.
            wrapper.__module__, wrapper.__qualname__ = owner.__name__, name
        self.undo.append(replace(owner, name, wrapper))


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
