"""When the steps of a rank closed, without reading its other edges; a live run's as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..ring.layout import Record
from .hot_reader import UNREADABLE
from .segment_names import parse
from .segment_reader import read_sealed, segment_files
from .tail import Tail

Ints = npt.NDArray[np.int64]
Closed = tuple[Ints, Ints]  # when, and which step
_NONE: Closed = (np.zeros(0, np.int64), np.zeros(0, np.int64))


MOST_STEPS = 4_000_000  # that are given one by one


@dataclass(frozen=True, slots=True)
class Steps:
    """When each ``every``-th step closed, in ns, sorted."""

    time_ns: Ints
    every: int = 1


class StepTimes:
    """When the steps of one rank closed. Sealed segments are read once, hot ones are followed."""

    def __init__(self, folders: Callable[[], Sequence[tuple[Path, int]]]):
        """``folders`` gives the folders of the rank's edges, and what to add to their times."""
        self._folders = folders
        self._lock = threading.Lock()
        self._steps: dict[str, Closed] = {}
        self._tails: dict[str, Tail] = {}

    def read(self) -> Steps:
        """All that are on disk; of thinned segments what lies between those that were kept."""
        with self._lock:
            rings: dict[str, list[Closed]] = {}
            thinned = set()
            present = set()
            for folder, ahead_ns in self._folders():
                for path in segment_files(folder, "edges-main*"):
                    self._read(path)
                    present.add(path.stem)
                    name = parse(path.stem)
                    ring = f"{folder}/{path.stem.split('-')[1]}"
                    if name is not None and name.thin:
                        thinned.add(ring)
                    time_ns, number = self._steps[path.stem]
                    rings.setdefault(ring, []).append((time_ns + ahead_ns, number))
            for stem in self._steps.keys() - present:  # joined with others, or thinned
                del self._steps[stem]
                self._tails.pop(stem, None)
        closed = {ring: _joined(parts) for ring, parts in rings.items()}
        total = sum(
            int(number[-1] - number[0]) + 1 if ring in thinned else len(number)
            for ring, (_, number) in closed.items()
            if len(number)
        )
        every = -(-total // MOST_STEPS) or 1
        times = [np.zeros(0, np.int64)]
        for ring, (time_ns, number) in closed.items():
            if ring in thinned:
                times.append(between(time_ns, number, every))
            else:
                times.append(np.sort(time_ns)[::every])
        return Steps(np.sort(np.concatenate(times)), every)

    def _read(self, path: Path) -> None:
        if path.suffix == ".parquet":
            if path.stem not in self._steps or path.stem in self._tails:
                self._tails.pop(path.stem, None)
                self._steps[path.stem] = _sealed(path)
            return
        tail = self._tails.setdefault(path.stem, Tail(path))
        before = self._steps.get(path.stem, _NONE)
        self._steps[path.stem] = _joined([before, *map(_closed, tail.new())])


def between(time_ns: Ints, number: Ints, every: int = 1) -> Ints:
    """When each step closed, evenly between those that are known.

    Args:
        time_ns: when some steps closed.
        number: which those are; they may begin again (a rank that was started anew).
        every: give each so-many-th step.
    """
    order = np.argsort(time_ns, kind="stable")
    time_ns, number = time_ns[order], number[order]
    falls = np.flatnonzero(np.diff(number) <= 0) + 1
    filled = [np.zeros(0, np.int64)]
    for part, numbers in zip(np.split(time_ns, falls), np.split(number, falls), strict=True):
        if len(part):
            wanted = np.arange(numbers[0], numbers[-1] + 1, every)
            first = int(part[0])  # floats hold the seconds since, not those since boot
            filled.append(
                first + np.rint(np.interp(wanted, numbers, part - first)).astype(np.int64)
            )
    return np.concatenate(filled)


def _joined(parts: Sequence[Closed]) -> Closed:
    return np.concatenate([t for t, _ in parts]), np.concatenate([n for _, n in parts])


def _sealed(path: Path) -> Closed:
    try:
        table = read_sealed(path, ["time_ns", "payload"], pc.field("kind") == Record.STEP)
        time_ns, number = (table[name].to_numpy() for name in ("time_ns", "payload"))
        return np.asarray(time_ns, np.int64), np.asarray(number, np.int64)
    except (KeyError, *UNREADABLE):
        return _NONE


def _closed(batch: pa.RecordBatch) -> Closed:
    steps = batch.column("kind").to_numpy() == Record.STEP
    time_ns, number = (batch.column(name).to_numpy()[steps] for name in ("time_ns", "payload"))
    return np.asarray(time_ns, np.int64), np.asarray(number, np.int64)
