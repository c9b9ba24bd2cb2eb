"""The reading side of a ring: validated batches, holes counted, nothing changed but the tail."""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import StoreError
from . import layout
from .layout import CHECK, PHASE_OF_CODE, SLOT_BYTES, SLOTS, WORD

SLOT_DTYPE = np.dtype(
    [
        ("time_ns", "<u8"),
        ("payload", "<i8"),
        ("sequence", "<u4"),
        ("kind", "<u2"),
        ("code", "<u2"),
        ("check", "<u8"),
    ]
)
_WORDS = SLOT_BYTES // WORD.size
_CHECK_WORD = _WORDS - 1
_FIRST_CHUNK = 256  # a recorder that keeps up finds fewer
_CHUNK = 4096


def _checked_header(path: Path, fd: int) -> tuple[int, int, int, int]:
    """(capacity, pid, start ticks, thread id) of a ring that is as long as they say; not mapped.

    Raises:
        StoreError: it is none.
        OSError: it cannot be read.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a ring: it is not a regular file")
    if status.st_size < SLOTS:
        raise StoreError(f"{path} is not a ring: it is too short")
    header = os.pread(fd, layout.HEADER.size, 0)
    magic, version, capacity, pid, ticks, tid = layout.HEADER.unpack(header)
    if magic != layout.MAGIC or version != layout.VERSION:
        raise StoreError(f"{path} is not a ring of this version")
    if not 0 < capacity <= layout.MAIN_CAPACITY:
        raise StoreError(f"the ring {path} has a header that no ring of ours has")
    if status.st_size != SLOTS + capacity * SLOT_BYTES:
        raise StoreError(f"the ring {path} is not as long as its header says")
    return capacity, pid, ticks, tid


@dataclass(frozen=True, slots=True)
class Edges:
    """A batch of records: ``rows`` (structured, SLOT_DTYPE) and the holes among them.

    ``holes`` are (time before, time after, records missing); a time of 0 is unknown.
    """

    rows: npt.NDArray[np.void]
    holes: tuple[tuple[int, int, int], ...] = ()


class RingReader:
    """Opens a ring file written by another process.

    ``read_only`` never moves the tail: used to look at the undrained edges of a run
    whose processes are gone.

    Raises:
        StoreError: the file is not a ring, or cannot be read.
    """

    def __init__(self, path: Path, *, read_only: bool = False):
        self.path = path
        self._read_only = read_only
        try:
            access = os.O_RDONLY if read_only else os.O_RDWR
            fd = os.open(path, access | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                header = _checked_header(path, fd)
                rights = mmap.PROT_READ | (0 if read_only else mmap.PROT_WRITE)
                # The recorder populates it now, so that its memory does not seem to grow during
                # the first lap; a look at it needs few of its pages.
                populate = 0 if read_only else getattr(mmap, "MAP_POPULATE", 0)
                size = os.fstat(fd).st_size
                self._map = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | populate, prot=rights)
            finally:
                os.close(fd)
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot read the ring {path}: {error}") from error
        capacity, pid, ticks, tid = header
        self.capacity, self.pid, self.start_ticks, self.tid = capacity, pid, ticks, tid
        words = np.frombuffer(self._map, dtype="<u8", count=capacity * _WORDS, offset=SLOTS)
        self._words = words.reshape(capacity, _WORDS)
        self._slots = words.view(SLOT_DTYPE)
        self._position = self._word(layout.TAIL)
        self._last_sequence: int | None = None
        self._last_time = 0
        self._holes_seen = 0
        if self._position:  # continue after another reader: the record before the tail
            previous = self._slots[(self._position - 1) % capacity]
            time_ns, sequence = int(previous["time_ns"]), int(previous["sequence"])
            if int(previous["check"]) == time_ns ^ sequence ^ CHECK:
                self._last_sequence, self._last_time = sequence, time_ns

    def read(self, limit: int = 1 << 20) -> Edges:
        """Up to ``limit`` records that have not been read yet, oldest first."""
        parts: list[npt.NDArray[np.void]] = []
        holes: list[tuple[int, int, int]] = []
        total = 0
        chunk = _FIRST_CHUNK
        while total < limit and self._written(0):
            rows = self._next_chunk(min(chunk, limit - total))
            if not len(rows):
                break
            chunk = _CHUNK
            holes += self._find_holes(rows)
            self._last_sequence = int(rows["sequence"][-1])
            self._last_time = int(rows["time_ns"][-1])
            self._position += len(rows)
            total += len(rows)
            parts.append(rows)
        rows = np.concatenate(parts) if parts else np.empty(0, SLOT_DTYPE)
        return Edges(rows, tuple(holes))

    def taken(self) -> npt.NDArray[np.void]:
        """What other readers have acknowledged and is still there, oldest first."""
        first = max(0, self._position - self.capacity)
        rows = self._slots[np.arange(first, self._position) % self.capacity]
        valid = rows["check"] == rows["time_ns"] ^ rows["sequence"].astype(np.uint64) ^ np.uint64(
            CHECK
        )
        ahead = rows["sequence"] - np.uint32(self._last_sequence or 0)
        behind = (ahead == 0) | (ahead >= np.uint32(1 << 31))  # else it is of the next lap
        kept: npt.NDArray[np.void] = rows[valid & behind]
        return kept

    @property
    def position(self) -> int:
        """How many records were read so far, by all readers."""
        return self._position

    def backlogged(self, share: float) -> bool:
        """True if more than ``share`` of the ring is waiting; looks at one slot only."""
        return self._written(int(self.capacity * share))

    def _written(self, ahead: int) -> bool:
        """True if the slot so many further on holds a record that follows those read."""
        row = self._slots[(self._position + ahead) % self.capacity]
        time_ns, sequence = int(row["time_ns"]), int(row["sequence"])
        if int(row["check"]) != time_ns ^ sequence ^ CHECK:
            return False
        if self._last_sequence is None:
            return True
        return 0 < (sequence - self._last_sequence) % (1 << 32) < 1 << 31

    def acknowledge(self) -> None:
        """Give the slots of all records read so far back to the writer."""
        if not self._read_only:
            layout.set_word(self._map, layout.TAIL, self._position)

    def beat(self, now_ns: int, *, epoch: int, pid: int) -> None:
        """Tell the writer that the recorder lives."""
        layout.set_word(self._map, layout.HEARTBEAT, now_ns)
        layout.set_word(self._map, layout.READER_PID, pid)
        # Last: a writer that reads this number must find this recorder alive.
        layout.set_word(self._map, layout.EPOCH, epoch)

    def hold(self, *, refused: bool) -> None:
        """Tell the writer whether the disk refuses what is recorded."""
        layout.set_word(self._map, layout.HELD, refused)

    def seal(self, *, complete: bool) -> None:
        """Tell the writer that everything is on disk, or that the disk refused some of it."""
        layout.set_word(self._map, layout.SEALED, 1 if complete else 2)

    @property
    def closed(self) -> bool:
        """True once the writer said that no record follows."""
        return bool(self._word(layout.CLOSED))

    @property
    def epoch(self) -> int:
        """Fencing number of the recorder that drained last."""
        return self._word(layout.EPOCH)

    @property
    def heartbeat_ns(self) -> int:
        """When a recorder drained it last; 0 before the first time."""
        return self._word(layout.HEARTBEAT)

    @property
    def run(self) -> Path | None:
        """The directory of its run, as the writer knew it; None where it says none."""
        (length,) = layout.LENGTH.unpack_from(self._map, layout.RUN)
        body = layout.RUN + layout.LENGTH.size
        where = bytes(self._map[body : min(body + length, layout.NAMES)])
        return Path(os.fsdecode(where)) if where and b"\0" not in where else None

    @property
    def dropped_unseen(self) -> int:
        """Records dropped after the last one read (no hole shows them yet)."""
        return max(0, self._word(layout.DROPPED) - self._holes_seen)

    def names(self) -> dict[int, str]:
        """Names of all codes registered so far, the built-in phases included."""
        names = dict(PHASE_OF_CODE)
        offset, stop = layout.NAMES, layout.NAMES + layout.NAMES_BYTES
        while offset + layout.NAME.size <= stop:
            code, length = layout.NAME.unpack_from(self._map, offset)
            if not length:
                break
            body = offset + layout.NAME.size
            names[code] = bytes(self._map[body : body + length]).decode("utf-8", "replace")
            offset = body + length
        return names

    def close(self) -> None:
        """Unmap. Arrays returned by :meth:`read` are copies and stay valid."""
        self._slots, self._words = np.empty(0, SLOT_DTYPE), np.empty((0, _WORDS), np.uint64)
        self._map.close()

    def _word(self, offset: int) -> int:
        return int(WORD.unpack_from(self._map, offset)[0])

    def _next_chunk(self, most: int) -> npt.NDArray[np.void]:
        start = self._position % self.capacity
        # The check words first: the writer stores them last, so what is copied after them is
        # whole. Copied after the rest, one could vouch for a payload of the lap before.
        words = self._words[start : start + most]
        checks = words[:, _CHECK_WORD].copy()
        rows = words.copy().view(SLOT_DTYPE)[:, 0]
        expected = rows["time_ns"] ^ rows["sequence"].astype(np.uint64) ^ np.uint64(CHECK)
        valid = checks == expected
        if self._last_sequence is not None:
            # A slot of the lap before passes the check but its sequence lies behind.
            ahead = rows["sequence"] - np.uint32(self._last_sequence)
            valid &= (ahead > 0) & (ahead < np.uint32(1 << 31))
        invalid = np.flatnonzero(~valid)
        return rows[: invalid[0]] if len(invalid) else rows

    def _find_holes(self, rows: npt.NDArray[np.void]) -> list[tuple[int, int, int]]:
        sequences = rows["sequence"].astype(np.int64)
        before = 0 if self._last_sequence is None else self._last_sequence
        steps = np.diff(sequences, prepend=before) % (1 << 32)
        holes = []
        for i in np.flatnonzero(steps > 1):
            earlier = int(rows["time_ns"][i - 1]) if i else self._last_time
            missing = int(steps[i]) - 1
            self._holes_seen += missing
            holes.append((earlier, int(rows["time_ns"][i]), missing))
        return holes
