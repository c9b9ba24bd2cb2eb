"""The process-wide patches: installed with the first engine, undone with the last.

Whoever patched on top of us keeps working: what cannot be undone is left behind as a
pass-through, and the next engine patches anew on top of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..signal_handler import Receiver
from .import_hooks import when_imported
from .wrappers import Aim

if TYPE_CHECKING:
    from types import ModuleType

    from ..state_machine import Machine

Wrap = Callable[[Any, "Session"], Callable[..., Any]]

_lock = threading.RLock()
_session: Session | None = None


class Session(Aim):
    """One period with at least one engine; the wrappers made in it look at ``target``."""

    def __init__(self) -> None:
        super().__init__()
        self.machines: list[Machine] = []

    def aim(self) -> None:
        """Point ``target`` at whoever listens."""
        machines = self.machines
        self.target = (
            None if not machines else machines[0] if len(machines) == 1 else Fanout(machines)
        )

    def patch(self, owner: Any, name: str, wrap: Wrap) -> None:
        """Replace ``owner.name`` by ``wrap(original, self)`` until the session ends."""
        if getattr(owner, name, None) is None:
            self.missing.append(f"{getattr(owner, '__name__', owner)}.{name}")
            return
        self.undo.append(replace(owner, name, wrap(getattr(owner, name), self)))


def replace(owner: Any, name: str, by: Any) -> Callable[[], bool]:
    """Set ``owner.name``; returns what undoes that, unless somebody patched on top: then False."""
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


class Fanout(Receiver):
    """Several machines as one: begins collect their tokens, ends hand them back."""

    def __init__(self, machines: list[Machine]):
        self.machines = tuple(machines)

    def reduces(self, ddp: Any, reduces: bool) -> Any:
        """Tell each; whether any of them counts it."""
        counted = [machine.reduces(ddp, reduces) for machine in self.machines]
        return any(counted)


def _to_each(name: str) -> Callable[..., Any]:
    def signal(self: Fanout, *args: Any) -> list[Any] | None:
        if args and isinstance(args[0], list):  # what the begins gave
            for machine, token in zip(self.machines, args[0], strict=True):
                if token:
                    getattr(machine, name)(token, *args[1:])
            return None
        return [getattr(machine, name)(*args) for machine in self.machines]

    return signal


for _name in vars(Receiver):
    if not _name.startswith("_") and _name not in vars(Fanout):
        setattr(Fanout, _name, _to_each(_name))


def attach(machine: Machine) -> list[str]:
    """Let ``machine`` hear all signals. Returns the signals that torch does not offer."""
    global _session
    with _lock:
        if _session is None:
            _session = Session()
            _install(_session)
        _session.machines.append(machine)
        _session.aim()
        return _session.missing


def detach(machine: Machine) -> None:
    """Stop hearing; the last one out undoes the patches."""
    global _session
    with _lock:
        session = _session
        if session is None or machine not in session.machines:
            return
        session.machines.remove(machine)
        session.aim()
        if not session.machines:
            _session = None
            for undo in reversed(session.undo):
                with contextlib.suppress(Exception):
                    undo()


def disarm() -> None:
    """In a forked child: nobody listens, every wrapper passes through."""
    if _session is not None:
        _session.machines.clear()
        _session.target = None


def _install(session: Session) -> None:
    def with_torch(_torch: ModuleType) -> None:
        from . import torch_patches

        for name, installer in torch_patches.INSTALLERS.items():

            def install(module: ModuleType, installer: Any = installer) -> None:
                try:
                    installer(session, module)
                except Exception as error:  # another version of torch: that signal is off
                    session.missing.append(f"{module.__name__}: {error}")

            session.undo.append(when_imported(name, install))

    session.undo.append(when_imported("torch", with_torch))
