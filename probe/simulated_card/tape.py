"""The true power of the simulated card over time: a file that one process appends to.

The training writes a level at each of its own phase edges; the recorder, in another process, maps
the file and integrates it. Entries are (CLOCK_MONOTONIC ns, watts); the last one holds until the
next. The number of entries stands first and is written last.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from array import array
from bisect import bisect_right
from pathlib import Path
from typing import IO

from ..units import NS_PER_S

_COUNT = struct.Struct("<q8x")
_ENTRY = struct.Struct("<qd")


class TapeWriter:
    """Appends levels to a new file; the oldest entry is the time from which the card exists."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        """Make it of a new, empty file, with space for ``most`` entries. Raises OSError."""
        self._file = os.dup(file.fileno())
        size = _COUNT.size + most * _ENTRY.size
        os.ftruncate(self._file, size)
        # No page of it is to be found missing at an edge of the training.
        self._map = mmap.mmap(self._file, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._most, self._used = most, 0

    def write(self, time_ns: int, watts: float) -> None:
        """From ``time_ns`` on the card draws ``watts`` (> 0). Times must not decrease.

        Raises:
            IndexError: the tape is full.
        """
        used = self._used
        if used >= self._most:
            raise IndexError("the tape of the simulated card is full")
        _ENTRY.pack_into(self._map, _COUNT.size + used * _ENTRY.size, time_ns, watts)
        self._used = used + 1
        # Not pack_into: it writes zeros before the number, and a reader would see no entry.
        self._map[: _COUNT.size] = _COUNT.pack(self._used)

    def close(self) -> None:
        """Give back the space that was not used. Nothing can be written any more."""
        self._map.close()
        os.ftruncate(self._file, _COUNT.size + self._used * _ENTRY.size)
        os.close(self._file)


class TapeReader:
    """The tape's integral, as far as it is written. Threads may share one."""

    def __init__(self, path: Path) -> None:
        """Map the file. Raises OSError, or ValueError if it holds no level."""
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._times, self._watts, self._joules = array("q"), array("d"), array("d")
        self._lock = threading.Lock()
        with self._lock:
            self._read_on()
        if not self._times:
            raise ValueError(f"{path} holds no level")

    @property
    def begin_ns(self) -> int:
        """From when on the card exists."""
        return self._times[0]

    def joules(self, time_ns: int) -> float:
        """Energy in J from the begin to ``time_ns``; negative before, at the first level."""
        with self._lock:
            self._read_on()
            place = max(0, bisect_right(self._times, time_ns) - 1)
            passed_s = (time_ns - self._times[place]) / NS_PER_S
            return self._joules[place] + self._watts[place] * passed_s

    def mean_watts(self, begin_ns: int, end_ns: int) -> float:
        """Mean power in W over a window that is not empty."""
        return (self.joules(end_ns) - self.joules(begin_ns)) / ((end_ns - begin_ns) / NS_PER_S)

    def _read_on(self) -> None:
        (count,) = _COUNT.unpack_from(self._map, 0)
        while len(self._times) < count:
            offset = _COUNT.size + len(self._times) * _ENTRY.size
            time_ns, watts = _ENTRY.unpack_from(self._map, offset)
            if not time_ns or not watts:
                return  # another core sees the number before the entry: next time
            joules = 0.0
            if self._times:
                passed_s = (time_ns - self._times[-1]) / NS_PER_S
                joules = self._joules[-1] + self._watts[-1] * passed_s
            self._times.append(time_ns)
            self._watts.append(watts)
            self._joules.append(joules)
