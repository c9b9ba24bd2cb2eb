"""The writing side of a ring: makes the file, whose slots :mod:`slots` fills."""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path

from ..errors import StoreError
from . import layout
from .layout import CODE_OF_PHASE, SLOT_BYTES, SLOTS, WORD
from .slots import Slots

Write = Callable[[int, int, int], None]


class RingWriter:
    """Creates a ring file and appends records to it.

    ``write(kind, code, payload)`` stamps the time itself;
    ``write_at(time_ns, kind, code, payload)`` takes a time that was read earlier.
    Neither ever raises or blocks.
    """

    write: Write
    write_at: Callable[[int, int, int, int], None]
    offered: Callable[[], int]
    """Records offered so far, dropped ones included (modulo 2³²)."""

    def __init__(
        self,
        path: Path,
        *,
        capacity: int = layout.MAIN_CAPACITY,
        start_ticks: int = 0,
        run: Path | None = None,
    ):
        """Preallocate ``path`` (a power-of-two ``capacity`` of slots) and map it.

        Args:
            run: the directory of the run. `probe doctor --fix` reads it if the process dies.

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
            self._map,
            0,
            layout.MAGIC,
            layout.VERSION,
            capacity,
            os.getpid(),
            start_ticks,
            threading.get_native_id(),
        )
        where = os.fsencode(run.absolute()) if run is not None else b""
        if layout.RUN + layout.LENGTH.size + len(where) <= layout.NAMES:
            body = layout.RUN + layout.LENGTH.size
            layout.LENGTH.pack_into(self._map, layout.RUN, len(where))
            self._map[body : body + len(where)] = where
        self.slots = Slots(self._map, capacity)
        self.write, self.write_at = self.slots.write, self.slots.write_at
        self.offered = self.slots.offered
        os.rename(temporary, path)

    def code(self, name: str) -> int:
        """The number of a phase or metric name, registered on first use.

        When the name table is full (about a thousand names), ``other``.
        """
        if name in self._codes:
            return self._codes[name]
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
        layout.set_word(self._map, layout.CLOSED, 1)

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
    def held(self) -> bool:
        """True while the disk refuses what the recorder wants to write."""
        return bool(WORD.unpack_from(self._map, layout.HELD)[0])

    @property
    def reader_epoch(self) -> int:
        """Fencing number of the recorder that drains this ring; 0 before its first round."""
        return int(WORD.unpack_from(self._map, layout.EPOCH)[0])

    @property
    def reader_pid(self) -> int:
        """Process id of the recorder that drains this ring; 0 before its first round."""
        return int(WORD.unpack_from(self._map, layout.READER_PID)[0])
