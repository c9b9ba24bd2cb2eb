"""What is patched to see sends and receives between two ranks. Needs torch.

What lies on a device is left out: the host does not wait there.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch.compiler import is_compiling

from ...ring.layout import TransferCode
from .patching import Session, Wrap

Call = Callable[..., Any]
_BLOCKING = "torch.distributed.distributed_c10d"


def around_transfer(code: TransferCode) -> Wrap:
    """Make wrappers of ``ProcessGroup.send`` or ``recv``, which isend, irecv and batches call."""

    def wrap(original: Call, session: Session) -> Call:
        @functools.wraps(original)
        def transfer(*args: Any, **kwargs: Any) -> Any:
            transfers = session.transfers
            if is_compiling() or transfers is None or (peer := _peer(*args)) is None:
                return original(*args, **kwargs)
            payload = transfers.begin(code, peer)
            work = original(*args, **kwargs)
            if payload is not None and work is not None:
                transfers.begun(work, code, payload)
            return work

        return transfer

    return wrap


def _peer(*args: Any) -> int | None:
    """Rank in the job of whom ``send(group, tensors, rank in group, tag)`` is for."""
    from torch.distributed import get_global_rank

    try:
        group, tensors, peer = args[:3]
        return get_global_rank(group, peer) if tensors[0].is_cpu else None
    except Exception:  # a group or a call that torch's own functions do not make
        return None


def _by_collective(caller: FrameType) -> bool:
    """Whether a collective that blocks waits, which begins and waits in one call.

    The collectives themselves cannot be asked: DeepSpeed keeps functions that it took before they
    were patched.
    """
    # A method called `wait` is that of several collectives which were begun together before.
    return caller.f_globals.get("__name__") == _BLOCKING and caller.f_code.co_name != "wait"


def around_wait(original: Call, session: Session) -> Call:
    """Wrap ``Work.wait``."""

    @functools.wraps(original)
    def wait(*args: Any, **kwargs: Any) -> Any:
        transfers = session.transfers
        if is_compiling() or transfers is None:
            return original(*args, **kwargs)
        if not _by_collective(sys._getframe(1)):
            transfers.beside_computing = True
        if not transfers.wait(args[0]):
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            transfers.waited()

    return wait
