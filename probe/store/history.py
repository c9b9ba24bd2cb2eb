"""The samples of one node over any span of time, as coarse as is asked for.

Sealed segments are read through their rollups or, for a short span, row group by row group; the
hot one is followed (:mod:`tail`), so that a look at a live run reads what is new and no more. One
reader may serve many threads.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..units import NS_PER_S
from .hot_reader import UNREADABLE
from .rollup import ROLLUP, WIDTHS, buckets, rollup_of
from .segment_reader import open_sealed, read_sealed, segment_files
from .segments import SAMPLES
from .tail import Tail

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_KEPT_BYTES = 48 << 20  # rollups that were read
_RAW = ("source", "time_ns", "value", "span_ns")


@dataclass(frozen=True, slots=True)
class Raw:
    """Samples of one source in order of time, values as stored."""

    time_ns: Ints
    value: Floats
    span_ns: Ints


@dataclass(frozen=True, slots=True)
class Rolled:
    """Buckets of one source in order of time, values as stored; an empty bucket is not there."""

    width_ns: int
    begin_ns: Ints
    minimum: Floats
    maximum: Floats
    mean: Floats
    last: Floats
    last_ns: Ints


class History:
    """The samples in a recorder's directory. Damaged and vanished files count as empty."""

    def __init__(self, node: Path, ahead_ns: int = 0):
        """Read nothing yet.

        Args:
            node: the recorder's directory.
            ahead_ns: added to all times, to move from the host's clock to the job's.
        """
        self._node, self.ahead_ns = node, ahead_ns
        self._lock = threading.Lock()
        self._hot: dict[str, Tail] = {}
        self._hot_rows: dict[str, pa.Table] = {}
        self._cold: list[Path] = []
        self._spans: dict[str, tuple[int, int]] = {}
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], pa.Table] = OrderedDict()
        self._kept_bytes = 0

    def refresh(self) -> int:
        """Read what was written since the last call; returns the number of new samples."""
        with self._lock:
            return self._refresh()

    def newest_ns(self) -> int | None:
        """Time of the newest hot sample; None if all is sealed."""
        with self._lock:
            tables = list(self._hot_rows.values())
        times = [int(pc.max(table["time_ns"]).as_py()) for table in tables if table.num_rows]
        return max(times) + self.ahead_ns if times else None

    def raw(self, sources: Collection[int], begin_ns: int, end_ns: int) -> dict[int, Raw]:
        """All samples of some sources in [begin, end]."""
        begin_ns, end_ns = begin_ns - self.ahead_ns, end_ns - self.ahead_ns
        with self._lock:
            tables = [
                _chosen(table, sources, "time_ns", begin_ns, end_ns)
                for table in self._hot_rows.values()
            ]
            segments = self._between(begin_ns, end_ns)
        tables += [_read(path, _RAW, sources, "time_ns", begin_ns, end_ns) for path in segments]
        return {
            source: Raw(
                rows["time_ns"] + self.ahead_ns, rows["value"], rows["span_ns"].astype(np.int64)
            )
            for source, rows in _apart(tables, SAMPLES, sources, "time_ns").items()
        }

    def rolled(
        self, sources: Collection[int], begin_ns: int, end_ns: int, label: str
    ) -> dict[int, Rolled]:
        """Buckets of some sources that begin in [begin, end].

        Args:
            label: one of ``rollup.WIDTHS``; the next one where that is not kept any more.
        """
        begin_ns, end_ns = begin_ns - self.ahead_ns, end_ns - self.ahead_ns
        chosen = tuple(sorted(sources))
        with self._lock:
            label = self._label_kept(label, begin_ns, end_ns)
            width_ns = WIDTHS[label] * NS_PER_S
            hot = [
                _chosen(table, chosen, "time_ns", begin_ns, end_ns)
                for table in self._hot_rows.values()
            ]
            files, bare = self._rollups(label, begin_ns, end_ns)
            tables = [self._rollup(path, chosen) for path in files]
        hot += [_read(path, _RAW, chosen, "time_ns", begin_ns, end_ns) for path in bare]
        tables = [
            _chosen(table, chosen, "begin_ns", begin_ns - width_ns + 1, end_ns) for table in tables
        ]
        tables += [buckets(table, width_ns) for table in hot if table.num_rows]
        return {
            source: _merged(rows, width_ns, self.ahead_ns)
            for source, rows in _apart(tables, ROLLUP, chosen, "begin_ns").items()
        }

    # -- files ----------------------------------------------------------------------

    def _refresh(self) -> int:
        present = segment_files(self._node, "samples")
        self._cold = [path for path in present if path.suffix == ".parquet"]
        hot = {path.stem: path for path in present if path.suffix != ".parquet"}
        count = 0
        for stem in hot.keys() - self._hot.keys():
            self._hot[stem] = Tail(hot[stem])
            self._hot_rows[stem] = SAMPLES.empty_table()
        for stem in self._hot.keys() - hot.keys():
            del self._hot[stem], self._hot_rows[stem]
        for stem, tail in self._hot.items():
            batches = tail.new()
            if batches:
                new = pa.Table.from_batches(batches, schema=SAMPLES)
                count += new.num_rows
                self._hot_rows[stem] = pa.concat_tables([self._hot_rows[stem], new])
        return count

    def _between(self, begin_ns: int, end_ns: int) -> list[Path]:
        """Sealed segments that may hold samples of a span; they follow each other in time."""
        after = bisect_right(self._cold, end_ns, key=lambda path: self._span(path)[0])
        first = after
        while first > 0 and self._span(self._cold[first - 1])[1] >= begin_ns:
            first -= 1
        return self._cold[first:after]

    def _label_kept(self, label: str, begin_ns: int, end_ns: int) -> str:
        """The label, or the next one if some of the span is so old that its rollups went."""
        labels = list(WIDTHS)
        while label != labels[-1] and any(
            path.stem.endswith("-thin") and not _named(self._node / "rollup", label, path).exists()
            for path in self._between(begin_ns, end_ns)
        ):
            label = labels[labels.index(label) + 1]
        return label

    def _rollups(self, label: str, begin_ns: int, end_ns: int) -> tuple[list[Path], list[Path]]:
        """(rollups, segments that have none: sealed a moment ago, or the disk refused)."""
        folder, wide_ns = self._node / "rollup", WIDTHS[label] * NS_PER_S
        segments = self._between(begin_ns - wide_ns, end_ns + wide_ns)
        if label == list(WIDTHS)[-1]:  # files are joined: look at the next width
            beside = folder, list(WIDTHS)[-2]
            bare = [path for path in segments if not _named(*beside, path).exists()]
            return sorted(folder.glob(f"{label}-*.parquet")), bare
        bare = [path for path in segments if not _named(folder, label, path).exists()]
        return [_named(folder, label, path) for path in segments if path not in bare], bare

    def _span(self, path: Path) -> tuple[int, int]:
        """First and last instant of a sealed segment, from its footer."""
        span = self._spans.get(path.stem)
        if span is None:
            span = self._spans[path.stem] = _span(path)
        return span

    def _rollup(self, path: Path, sources: tuple[int, ...]) -> pa.Table:
        key = (path.name, sources)
        table = self._kept.get(key)
        if table is None:
            table = self._kept[key] = _read(path, ROLLUP.names, sources)
            self._kept_bytes += table.nbytes
            while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= self._kept.popitem(last=False)[1].nbytes
        else:
            self._kept.move_to_end(key)
        return table


def _named(folder: Path, label: str, segment: Path) -> Path:
    return rollup_of(folder, label, segment.stem)


def _span(path: Path) -> tuple[int, int]:
    try:
        with open_sealed(path) as file:
            place = file.schema_arrow.get_field_index("time_ns")
            groups = [
                file.metadata.row_group(i).column(place).statistics
                for i in range(file.metadata.num_row_groups)
            ]
        return min(group.min for group in groups), max(group.max for group in groups)
    except (AttributeError, *UNREADABLE):
        return 0, 0


def _read(
    path: Path,
    columns: Sequence[str],
    sources: Collection[int],
    time: str | None = None,
    begin_ns: int = 0,
    end_ns: int = 0,
) -> pa.Table:
    where = pc.field("source").isin(pa.array(sorted(sources), pa.uint16()))
    if time is not None:
        where &= (pc.field(time) >= begin_ns) & (pc.field(time) <= end_ns)
    try:
        return read_sealed(path, columns, where)
    except UNREADABLE:
        return pa.table({})


def _chosen(
    table: pa.Table, sources: Collection[int], time: str, begin_ns: int, end_ns: int
) -> pa.Table:
    if not table.num_rows:
        return table
    at = table[time]
    keep = pc.and_(pc.greater_equal(at, begin_ns), pc.less_equal(at, end_ns))
    keep = pc.and_(keep, pc.is_in(table["source"], pa.array(sorted(sources), pa.uint16())))
    return table.filter(keep)


def _apart(
    tables: Sequence[pa.Table], schema: pa.Schema, sources: Collection[int], time: str
) -> dict[int, dict[str, npt.NDArray[Any]]]:
    """Columns of each source in order of time."""
    kept = [table for table in tables if table.num_rows]
    if not kept:
        return {}
    if schema is ROLLUP:
        kept = [_with_last(table) for table in kept]
    columns = {
        name: np.concatenate([table[name].to_numpy() for table in kept]) for name in schema.names
    }
    # Of a bucket that two files share, the later part last.
    order = np.lexsort((columns.get("last_ns", columns[time]), columns[time], columns["source"]))
    columns = {name: column[order] for name, column in columns.items()}
    by_source = {}
    for source in sources:
        low, high = np.searchsorted(columns["source"], [source, source + 1])
        if high > low:
            by_source[source] = {name: column[low:high] for name, column in columns.items()}
    return by_source


def _with_last(table: pa.Table) -> pa.Table:
    """Rollups of an older version do not tell when a bucket's last sample was read."""
    if "last_ns" in table.schema.names:
        return table
    return table.append_column("last_ns", table["begin_ns"])


def _merged(rows: dict[str, npt.NDArray[Any]], width_ns: int, ahead_ns: int) -> Rolled:
    """A bucket that two segments share, as one."""
    begin = rows["begin_ns"].astype(np.int64)
    first = np.flatnonzero(np.concatenate([[True], begin[1:] != begin[:-1]]))
    count = rows["count"].astype(np.float64)
    weight = np.add.reduceat(count, first)
    last = np.append(first[1:], len(begin)) - 1
    return Rolled(
        width_ns,
        begin[first] + ahead_ns,
        np.minimum.reduceat(rows["minimum"], first),
        np.maximum.reduceat(rows["maximum"], first),
        np.add.reduceat(rows["mean"] * count, first) / weight,
        rows["last"][last].astype(np.float64),
        rows["last_ns"][last].astype(np.int64) + ahead_ns,
    )
