"""The writing side of a ring: the only code of ours that runs at every edge."""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import StoreError
from . import layout
from .layout import CHECK, CODE_OF_PHASE, SEQUENCE_MASK, SLOT, SLOT_BYTES, SLOTS, WORD, Record

Write = Callable[[int, int, int], None]


class RingWriter:
    """Creates a ring file and appends records to it.

    ``write(kind, code, payload)`` stamps the time itself and costs about 0.4 µs;
    ``write_at(time_ns, kind, code, payload)`` takes a time that was read earlier.
    Both are plain closures, made once, so that a mark is one call. Neither ever
    raises or blocks.
    """

    write: Write
    write_at: Callable[[int, int, int, int], None]
    offered: Callable[[], int]
    """Records offered so far, dropped ones included (modulo 2³²)."""

    def __init__(self, path: Path, *, capacity: int = layout.MAIN_CAPACITY, start_ticks: int = 0):
        """Preallocate ``path`` (a power-of-two ``capacity`` of slots) and map it.

        Raises:
            StoreError: no space, or no right to write there.
        """
        if capacity & (capacity - 1):
            raise ValueError("capacity must be a power of two")
        self.path = path
        self._codes = dict(CODE_OF_PHASE)
        self._names_end = layout.NAMES
        size = SLOTS + capacity * SLOT_BYTES
        temporary = path.with_name(f".{path.name}.new")
        try:
            fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"cannot create the ring {path}: {error.strerror}") from error
        try:
            # A sparse map on a full disk is a SIGBUS inside the user's training.
            os.posix_fallocate(fd, 0, size)
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
            self._map = mmap.mmap(fd, size, flags=flags)
        except OSError as error:
            os.unlink(temporary)
            why = "no space left" if error.errno == errno.ENOSPC else error.strerror
            raise StoreError(f"cannot allocate the ring {path}: {why}") from error
        finally:
            os.close(fd)
        layout.HEADER.pack_into(
            self._map, 0, layout.MAGIC, layout.VERSION, capacity, os.getpid(), start_ticks,
            threading.get_native_id(),
        )
        self.write, self.write_at, self.offered = _closures(self._map, capacity)
        os.rename(temporary, path)

    def code(self, name: str) -> int:
        """The number of a phase or metric name, registered on first use.

        When the name table is full (about a thousand names), ``other``.
        """
        known = self._codes.get(name)
        if known is not None:
            return known
        code = int(layout.Code.USER) + len(self._codes) - len(CODE_OF_PHASE)
        encoded = name.encode("utf-8", "replace")[:200]
        end = self._names_end + layout.NAME.size + len(encoded)
        if end + layout.NAME.size > layout.NAMES + layout.NAMES_BYTES:
            return int(layout.Code.OTHER)
        body = self._names_end + layout.NAME.size
        self._map[body:end] = encoded
        layout.NAME.pack_into(self._map, self._names_end, code, len(encoded))
        self._names_end = end
        self._codes[name] = code
        return code

    def close(self) -> None:
        """Say that no record follows. The file stays: the recorder removes it."""
        WORD.pack_into(self._map, layout.CLOSED, 1)

    @property
    def dropped(self) -> int:
        """Records that found the ring full."""
        return int(WORD.unpack_from(self._map, layout.DROPPED)[0])

    @property
    def heartbeat_ns(self) -> int:
        """Monotonic time of the recorder's last round; 0 before its first."""
        return int(WORD.unpack_from(self._map, layout.HEARTBEAT)[0])

    @property
    def sealed(self) -> bool:
        """True once the recorder has sealed the run."""
        return bool(WORD.unpack_from(self._map, layout.SEALED)[0])

    @property
    def refused(self) -> bool:
        """True if the recorder ended but the disk did not take everything."""
        return int(WORD.unpack_from(self._map, layout.SEALED)[0]) == 2

    @property
    def reader_epoch(self) -> int:
        """Fencing number of the recorder that drains this ring; 0 before its first round."""
        return int(WORD.unpack_from(self._map, layout.EPOCH)[0])

    @property
    def reader_pid(self) -> int:
        """Process id of the recorder that drains this ring; 0 before its first round."""
        return int(WORD.unpack_from(self._map, layout.READER_PID)[0])


def _closures(
    target: mmap.mmap, capacity: int
) -> tuple[Write, Callable[[int, int, int, int], None], Callable[[], int]]:
    now = time.monotonic_ns
    pack, pack_word, unpack_word = SLOT.pack_into, WORD.pack_into, WORD.unpack_from
    mark_mask = capacity - 1
    position = 0  # slots written
    sequence = 0  # records offered, dropped ones included
    limit = capacity  # first position that would overrun the reader as last seen
    dropped = 0

    def write_at(time_ns: int, kind: int, code: int, payload: int) -> None:
        nonlocal position, sequence, limit, dropped
        sequence = (sequence + 1) & SEQUENCE_MASK
        if position >= limit:
            limit = unpack_word(target, layout.TAIL)[0] + capacity
            if position >= limit:
                dropped += 1
                pack_word(target, layout.DROPPED, dropped)
                return
        pack(
            target, SLOTS + (position & mark_mask) * SLOT_BYTES,
            time_ns, payload, sequence, kind, code, time_ns ^ sequence ^ CHECK,
        )
        position += 1

    def write(kind: int, code: int, payload: int) -> None:
        nonlocal position, sequence, limit, dropped
        time_ns = now()
        sequence = (sequence + 1) & SEQUENCE_MASK
        if position >= limit:
            limit = unpack_word(target, layout.TAIL)[0] + capacity
            if position >= limit:
                dropped += 1
                pack_word(target, layout.DROPPED, dropped)
                return
        pack(
            target, SLOTS + (position & mark_mask) * SLOT_BYTES,
            time_ns, payload, sequence, kind, code, time_ns ^ sequence ^ CHECK,
        )
        position += 1

    def offered() -> int:
        return sequence

    return write, write_at, offered


__all__ = ["Record", "RingWriter"]
