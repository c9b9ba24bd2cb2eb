"""Sends to another rank and receives from it: when each was begun, and when it was waited for.

One rank's edges do not show whether it waited for a late neighbour or for the data to arrive. The
edges of both ranks do: see ``timeline/pipeline_waiting.py``.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import Any

from ..ring.layout import PEER_BITS, Record, TransferCode
from ..ring.writer import RingWriter
from .state_machine import PhaseStateMachine

_P2P, _WAITED = int(Record.P2P), int(TransferCode.WAITED)
_WAIT = {
    TransferCode.SEND: int(TransferCode.WAIT_SEND),
    TransferCode.RECEIVE: int(TransferCode.WAIT_RECEIVE),
}
_BEGUN = 4096  # at most so many transfers without a wait are remembered


class Transfers:
    """Writes the P2P records of the thread that ``machine`` records. Nothing here raises."""

    def __init__(self, ring: RingWriter, machine: PhaseStateMachine):
        """Write into ``ring``, the main one."""
        self._write, self._machine = ring.write, machine
        self.beside_computing = False  # True once something was waited for that was begun before
        self._next: dict[tuple[TransferCode, int], int] = {}
        self._begun: dict[int, tuple[weakref.ref[Any], int, int]] = {}  # by the Work's id

    def begin(self, code: TransferCode, peer: int) -> int | None:
        """Record that a SEND to or a RECEIVE from rank ``peer`` begins; returns its payload."""
        if get_ident() != self._machine.thread or not 0 <= peer < 1 << PEER_BITS:
            return None
        number = self._next.get((code, peer), 0)
        self._next[code, peer] = number + 1
        payload = number << PEER_BITS | peer
        self._write(_P2P, int(code), payload)
        return payload

    def begun(self, work: Any, code: TransferCode, payload: int) -> None:
        """Keep in mind what ``work`` is: it takes no attribute."""
        if len(self._begun) >= _BEGUN:
            self._begun.clear()
        self._begun[id(work)] = (weakref.ref(work), _WAIT[code], payload)

    def wait(self, work: Any) -> bool:
        """Record that ``work`` is waited for; False if it is no such transfer."""
        begun = self._begun.pop(id(work), None)
        if begun is None or begun[0]() is not work or get_ident() != self._machine.thread:
            return False
        self._write(_P2P, begun[1], begun[2])
        return True

    def waited(self) -> None:
        """Record that the wait is over."""
        self._write(_P2P, _WAITED, 0)
