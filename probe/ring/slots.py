# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""The slots of a ring, filled in turn by the one thread that owns it.

Compiled where there is a C compiler; the types for that are in ``slots.pxd``.
"""

from __future__ import annotations

import mmap

try:
    import cython
except ImportError:
    from . import pure as cython

from .layout import CHECK, DROPPED, SEQUENCE_MASK, SLOT_BYTES, SLOTS, TAIL

if not cython.compiled:
    from time import monotonic_ns

    words_of = memoryview

_WORD_BYTES = 8
_FIRST, _WORDS = SLOTS // _WORD_BYTES, SLOT_BYTES // _WORD_BYTES
_TAIL, _DROPPED = TAIL // _WORD_BYTES, DROPPED // _WORD_BYTES
_UNSIGNED = 0xFFFF_FFFF_FFFF_FFFF


class Slots:
    """Appends records; never raises, never blocks: what finds the ring full is counted."""

    __slots__ = ("_capacity", "_dropped", "_limit", "_position", "_sequence", "_view", "_words")

    def __init__(self, target: mmap.mmap, capacity: int):
        """Of the ring file mapped at ``target``, a power-of-two ``capacity`` of slots."""
        self._view = memoryview(target).cast("Q")
        self._words = words_of(self._view)
        self._capacity = capacity
        self._position = 0  # slots written
        self._sequence = 0  # records offered, dropped ones included
        self._limit = capacity  # first position that would overrun the reader as last seen
        self._dropped = 0

    def write(self, kind: int, code: int, payload: int) -> None:
        """Append a record of now."""
        self.write_at(monotonic_ns(), kind, code, payload)

    def write_at(self, time_ns: int, kind: int, code: int, payload: int) -> None:
        """Append a record of a time that was read earlier."""
        self._sequence = (self._sequence + 1) & SEQUENCE_MASK
        if self._position >= self._limit:
            self._limit = self._words[_TAIL] + self._capacity
            if self._position >= self._limit:
                self._dropped += 1
                self._words[_DROPPED] = self._dropped
                return
        place = _FIRST + (self._position & (self._capacity - 1)) * _WORDS
        self._words[place] = time_ns
        self._words[place + 1] = payload & _UNSIGNED
        self._words[place + 2] = self._sequence | kind << 32 | code << 48
        self._words[place + 3] = time_ns ^ self._sequence ^ CHECK  # last: see layout
        self._position += 1

    def offered(self) -> int:
        """Records offered so far, dropped ones included (modulo 2³²)."""
        return self._sequence
