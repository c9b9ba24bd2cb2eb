"""What ``run.log`` wrote of one rank, read without the rank's other edges."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from probe.ring.layout import Record
from probe.store.hot_reader import UNREADABLE
from probe.store.reader import RunReader
from probe.store.segment_reader import read_sealed, segment_files
from probe.store.tail import Tail

from ..chart_data import Floats

Ints = npt.NDArray[np.int64]
_COLUMNS = ["time_ns", "code", "payload"]


class LoggedValues:
    """The logged values of one rank. Sealed segments are read once, hot ones are followed.

    Safe to use from many threads.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._lock = threading.Lock()
        self._parts: dict[str, list[pa.Table]] = {}
        self._tails: dict[str, Tail] = {}

    def read(self, reader: RunReader) -> dict[str, tuple[Ints, Floats]]:
        """All that are on disk, by name, in order of time; ``samples`` may be the loader's."""
        by_name: dict[str, list[tuple[Ints, Floats]]] = {}
        with self._lock:
            present = set()
            for folder, ahead_ns in reader.folders(self._rank):
                for path in segment_files(folder, "edges-*"):
                    self._read(path)
                    present.add(path.stem)
                    names = reader.names(self._rank, path.stem.split("-")[1])
                    for table in self._parts[path.stem]:
                        time_ns, code, payload = (table.column(c).to_numpy() for c in _COLUMNS)
                        for number in np.unique(code):
                            of = code == number
                            name = names.get(int(number), f"value-{number}")
                            by_name.setdefault(name, []).append(
                                (
                                    time_ns[of].astype(np.int64) + ahead_ns,
                                    payload[of].astype(np.int64).view(np.float64),
                                )
                            )
            for stem in self._parts.keys() - present:  # joined with others, or thinned
                del self._parts[stem]
                self._tails.pop(stem, None)
        return {name: in_order(parts) for name, parts in by_name.items()}

    def _read(self, path: Path) -> None:
        if path.suffix == ".parquet":
            if path.stem not in self._parts or path.stem in self._tails:
                self._tails.pop(path.stem, None)
                try:
                    table = read_sealed(path, _COLUMNS, pc.field("kind") == Record.VALUE)
                    self._parts[path.stem] = [table]
                except (KeyError, *UNREADABLE):
                    self._parts[path.stem] = []
            return
        tail = self._tails.setdefault(path.stem, Tail(path))
        new = [pa.Table.from_batches([batch]) for batch in tail.new()]
        values = [t.filter(pc.field("kind") == Record.VALUE).select(_COLUMNS) for t in new]
        self._parts[path.stem] = [*self._parts.get(path.stem, []), *values]


def in_order(parts: Sequence[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    """Columns of several parts as one, in order of time."""
    time_ns, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(time_ns, kind="stable")
    return time_ns[order], value[order]
