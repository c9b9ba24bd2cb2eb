"""The process-wide patches: installed when a machine attaches, undone when it detaches.

Later patches by others keep working: what cannot be undone below them is left as a pass-through,
and the next machine's patches go on top of it.
"""

from __future__ import annotations

import contextlib
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ..state_machine import PhaseStateMachine
from ..transfers import Transfers
from .import_hooks import when_imported
from .patching import Session

if TYPE_CHECKING:
    from ..training_threads import TrainingThreads

_lock = threading.RLock()
_session: Session | None = None


def attach(machine: PhaseStateMachine, transfers: Transfers) -> None:
    """Send all signals to ``machine`` and its ``transfers``, no longer to those attached before."""
    global _session
    with _lock:
        if _session is None:
            _session = Session()
            _install(_session)
        _session.machine, _session.transfers, _session.owner = machine, transfers, machine


def redirect(machine: PhaseStateMachine, signals: TrainingThreads) -> None:
    """Send to ``signals`` what ``machine`` was told, unless another one has been attached."""
    with _lock:
        if _session is not None and _session.owner is machine:
            _session.machine = cast(PhaseStateMachine, signals)


def detach(machine: PhaseStateMachine) -> None:
    """Undo the patches, unless another machine has taken the place of this one."""
    global _session
    with _lock:
        session = _session
        if session is None or session.owner is not machine:
            return
        _session = session.machine = session.transfers = session.owner = None
        for undo in reversed(session.undo):
            with contextlib.suppress(Exception):
                undo()


def disarm() -> None:
    """In a forked child, let every wrapper pass through."""
    if _session is not None:
        _session.machine = _session.transfers = _session.owner = None


def _install(session: Session) -> None:
    def with_torch(_torch: ModuleType) -> None:
        from . import torch_patches

        for name, installer in torch_patches.INSTALLERS.items():

            def install(module: ModuleType, installer: Any = installer) -> None:
                with contextlib.suppress(Exception):  # another version of torch: that signal is off
                    installer(session, module)

            session.undo.append(when_imported(name, install))

    session.undo.append(when_imported("torch", with_torch))
