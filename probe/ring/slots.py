# cython: language_level=3, binding=False
"""The slots of a ring, filled in turn by the one thread that owns it.

Compiled where there is a C compiler; the same in plain Python elsewhere.
"""

from __future__ import annotations

import mmap

try:
    import cython
except ImportError:
    from . import pure as cython

from .layout import CHECK, DROPPED, SEQUENCE_MASK, SLOT_BYTES, SLOTS, TAIL
from .stale_check import refuse_stale

if cython.compiled:
    from cython.cimports.probe.ring.native import BUILT_FROM, monotonic_ns, publish, words_of

    refuse_stale(__file__, BUILT_FROM.decode())
else:
    from time import monotonic_ns

    words_of = memoryview

    def publish(words: memoryview, place: int, value: int) -> None:
        """Store a word that says to other processes that what was stored before it is there."""
        words[place] = value


_WORD_BYTES = 8
_CHECK = cython.declare(cython.ulonglong, CHECK)
_SEQUENCE_MASK = cython.declare(cython.ulonglong, SEQUENCE_MASK)
_UNSIGNED = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)
_FIRST = cython.declare(cython.Py_ssize_t, SLOTS // _WORD_BYTES)
_WORDS = cython.declare(cython.Py_ssize_t, SLOT_BYTES // _WORD_BYTES)
_TAIL = cython.declare(cython.Py_ssize_t, TAIL // _WORD_BYTES)
_DROPPED = cython.declare(cython.Py_ssize_t, DROPPED // _WORD_BYTES)


class Slots:
    """Appends records; never raises, never blocks: what finds the ring full is counted.

    Fields' types when compiled stand in ``slots.pxd``, for other compiled modules.
    """

    def __init__(self, target: mmap.mmap, capacity: cython.ulonglong):
        """Fill the ring file mapped at ``target``; ``capacity`` is a power of two, in slots."""
        self._view = memoryview(target).cast("Q")  # keeps the words alive
        self._words = words_of(self._view)
        self._capacity = capacity
        self._position = 0  # slots written
        self._sequence = 0  # records offered, dropped ones included
        self._limit = capacity  # first position that would overrun the reader as last seen
        self._dropped = 0

    @cython.ccall
    @cython.exceptval(check=False)
    def write(
        self, kind: cython.ulonglong, code: cython.ulonglong, payload: cython.longlong
    ) -> cython.void:
        """Append a record stamped with the present time."""
        self.write_at(monotonic_ns(), kind, code, payload)

    @cython.ccall
    @cython.exceptval(check=False)
    def write_at(
        self,
        time_ns: cython.ulonglong,
        kind: cython.ulonglong,
        code: cython.ulonglong,
        payload: cython.longlong,
    ) -> cython.void:
        """Append a record of a time that was read earlier."""
        self._sequence = (self._sequence + 1) & _SEQUENCE_MASK
        if self._position >= self._limit:
            self._limit = self._words[_TAIL] + self._capacity
            if self._position >= self._limit:
                self._dropped += 1
                self._words[_DROPPED] = self._dropped
                return
        place: cython.Py_ssize_t = _FIRST + (self._position & (self._capacity - 1)) * _WORDS
        self._words[place] = time_ns
        self._words[place + 1] = payload & _UNSIGNED
        self._words[place + 2] = self._sequence | kind << 32 | code << 48
        publish(self._words, place + 3, time_ns ^ self._sequence ^ _CHECK)  # last: see layout
        self._position += 1

    def offered(self) -> int:
        """Records offered so far, dropped ones included (modulo 2³²)."""
        return self._sequence
