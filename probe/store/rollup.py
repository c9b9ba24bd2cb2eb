"""Rollups of sealed sample segments: 1 s, 10 s and 60 s buckets, one file each per segment.

A chart of a day reads these instead of ten million samples. A bucket without a
sample has no row: gaps stay gaps. A segment's last bucket may go on in the next
segment's file; readers merge by (source, bucket). Files of the widest buckets are
joined as they become many: a week has two thousand segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..units import NS_PER_S
from .new_files import make_folder_here
from .sealed_files import Fence, no_fence, write_sealed
from .segment_names import parse
from .segment_reader import open_sealed, read_segment
from .segments import SAMPLES

WIDTHS = {"1s": 1, "10s": 10, "60s": 60}
ROLLUP = pa.schema(
    [
        ("source", pa.uint16()),
        ("begin_ns", pa.int64()),
        ("count", pa.uint32()),
        ("minimum", pa.float64()),
        ("maximum", pa.float64()),
        ("mean", pa.float64()),
        ("last", pa.float64()),
        ("last_ns", pa.int64()),
    ]
)
MERGED = "merged"  # in the name of a file that holds several segments' buckets
_MANY = 48  # files of the widest buckets that are joined into one


def rollup_of(folder: Path, label: str, stem: str) -> Path:
    """The rollup of a segment; of a thinned one that of what it was."""
    name = parse(stem)
    return folder / f"{label}-{stem if name is None else name.whole_stem}.parquet"


def roll_up(segment: Path, folder: Path, fence: Fence = no_fence) -> None:
    """Write the rollups of one sealed segment below ``folder``/rollup. Raises OSError."""
    table = pa.Table.from_batches(list(read_segment(segment)), schema=SAMPLES)
    if not table.num_rows:
        return
    target = folder / "rollup"
    make_folder_here(target)
    for label, seconds in WIDTHS.items():
        rolled = buckets(table, seconds * NS_PER_S)
        write_sealed(
            rollup_of(target, label, segment.stem),
            ROLLUP,
            rolled.to_batches(),
            fence=fence,
            sync=False,
        )
    _join(target, list(WIDTHS)[-1])


def join_rollups(folder: Path, stems: Sequence[str], stem: str, fence: Fence = no_fence) -> None:
    """Write the rollups of a segment that joins others, but for the widest. Raises OSError.

    Args:
        folder: of the rollups.
        stems: of the segments that are joined; where one has no rollup, the whole gets none.
        stem: of the whole.
        fence: called before anything appears.
    """
    for label in list(WIDTHS)[:-1]:
        paths = [rollup_of(folder, label, part) for part in stems]
        if all(path.exists() for path in paths):
            write_sealed(rollup_of(folder, label, stem), ROLLUP, _rows(paths), fence=fence)


def _rows(paths: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with open_sealed(path) as file:
            yield from file.iter_batches()


def _join(folder: Path, label: str) -> None:
    """Join many files of one width into one. Raises OSError.

    If this is interrupted, some buckets exist twice: only their count is then wrong.
    """
    merged = sorted(folder.glob(f"{label}-{MERGED}-*.parquet"))
    parts = [path for path in sorted(folder.glob(f"{label}-*.parquet")) if path not in merged]
    if len(parts) < _MANY:
        return
    tables = []
    for path in parts:
        with open_sealed(path) as part:
            tables.append(part.read())
    table = pa.concat_tables(tables, promote_options="default")
    table = table.sort_by([("source", "ascending"), ("begin_ns", "ascending")])
    path = folder / f"{label}-{MERGED}-{len(merged) + 1:06d}.parquet"
    write_sealed(path, table.schema, table.to_batches(1 << 12), group_rows=1 << 12)
    for path in parts:
        path.unlink()


def buckets(samples: pa.Table, width_ns: int) -> pa.Table:
    """Count, minimum, maximum, mean, last value and its time, per source and bucket (ROLLUP).

    Args:
        samples: source, time_ns and value, in any order.
    """
    source, time_ns, value = (samples[name].to_numpy() for name in ("source", "time_ns", "value"))
    order = np.lexsort((time_ns, source))
    source, time_ns, value = source[order], time_ns[order], value[order]
    bucket = time_ns // width_ns
    new = np.ones(len(source), bool)
    new[1:] = (source[1:] != source[:-1]) | (bucket[1:] != bucket[:-1])
    first = np.flatnonzero(new)
    count = np.diff(np.append(first, len(source)))
    return pa.table(
        {
            "source": source[first],
            "begin_ns": bucket[first] * width_ns,
            "count": count,
            "minimum": np.minimum.reduceat(value, first),
            "maximum": np.maximum.reduceat(value, first),
            "mean": np.add.reduceat(value, first) / count,
            "last": value[first + count - 1],
            "last_ns": time_ns[first + count - 1],
        },
        schema=ROLLUP,
    )
