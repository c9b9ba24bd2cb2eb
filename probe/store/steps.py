"""When the steps of a rank closed, without reading its other edges; a live run's as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..ring.layout import Record
from .hot_reader import UNREADABLE
from .segment_reader import read_sealed, segment_files
from .tail import Tail

Ints = npt.NDArray[np.int64]


class StepTimes:
    """When the steps of one rank closed. Sealed segments are read once, hot ones are followed."""

    def __init__(self, folders: Callable[[], Sequence[tuple[Path, int]]]):
        """``folders`` gives the folders of the rank's edges, and what to add to their times."""
        self._folders = folders
        self._lock = threading.Lock()
        self._times: dict[str, Ints] = {}
        self._tails: dict[str, Tail] = {}

    def read(self) -> Ints:
        """All that are on disk, in ns, sorted."""
        with self._lock:
            times = [np.zeros(0, np.int64)]
            for folder, ahead_ns in self._folders():
                for path in segment_files(folder, "edges-main*"):
                    self._read(path)
                    times.append(self._times[path.stem] + ahead_ns)
            return np.sort(np.concatenate(times))

    def _read(self, path: Path) -> None:
        if path.suffix == ".parquet":
            if path.stem not in self._times or path.stem in self._tails:
                self._tails.pop(path.stem, None)
                self._times[path.stem] = _sealed(path)
            return
        tail = self._tails.setdefault(path.stem, Tail(path))
        before = self._times.get(path.stem, np.zeros(0, np.int64))
        self._times[path.stem] = np.concatenate([before, *(_closed(batch) for batch in tail.new())])


def _sealed(path: Path) -> Ints:
    try:
        table = read_sealed(path, ["time_ns"], pc.field("kind") == Record.STEP)
        return np.asarray(table["time_ns"].to_numpy(), np.int64)
    except (KeyError, *UNREADABLE):
        return np.zeros(0, np.int64)


def _closed(batch: pa.RecordBatch) -> Ints:
    kind = batch.column("kind").to_numpy()
    return np.asarray(batch.column("time_ns").to_numpy()[kind == Record.STEP], np.int64)
