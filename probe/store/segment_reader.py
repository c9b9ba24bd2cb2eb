"""Read segments, hot and sealed; what is torn ends quietly, what is damaged is said.

Readers take nothing for granted: a file may be torn, damaged, or another user's (:mod:`untrusted`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import untrusted
from .hot_reader import UNREADABLE, Place, whole_batches
from .segment_checksums import check_footer
from .segment_names import counted

MOST_BYTES = 1 << 30  # one is closed at 16 MiB; joined rollups grow
_MOST_INFLATED = 1 << 30
OnDamage = Callable[[Path], None]


def segment_files(folder: Path, stem: str) -> list[Path]:
    """The segments of a table in the order they were written, each once: :mod:`segment_names`."""
    by_stem = {p.stem: p for p in (folder / "hot").glob(f"{stem}-*.arrows")}
    by_stem |= {p.stem: p for p in (folder / "cold").glob(f"{stem}-*.parquet")}
    return [by_stem[key] for key in counted(by_stem)]


def has_thinned(folder: Path, table: str) -> bool:
    """Whether some of a table's segments were thinned."""
    return any(path.stem.endswith("-thin") for path in segment_files(folder, table))


def read_segments(
    folder: Path, stem: str, damaged: OnDamage | None = None
) -> Iterator[pa.RecordBatch]:
    """All batches of a table; torn tails and vanished files end a segment quietly.

    Args:
        damaged: hears of sealed segments that cannot be read.
    """
    for path in segment_files(folder, stem):
        yield from read_segment(path, damaged)


def read_segment(path: Path, damaged: OnDamage | None = None) -> Iterator[pa.RecordBatch]:
    """All whole batches of one segment; a tear or a vanished file ends it quietly.

    Args:
        damaged: hears of a sealed segment that cannot be read.
    """
    if path.suffix == ".parquet":
        yield from _read_sealed(path, damaged)
        return
    try:
        with untrusted.opened(path, MOST_BYTES) as file, pa.PythonFile(file, mode="r") as source:
            yield from whole_batches(source, path.stem, Place(), lambda: _tell(damaged, path))
    except FileNotFoundError:  # sealed since it was listed
        cold = path.parent.parent / "cold" / f"{path.stem}.parquet"
        if cold.exists():
            yield from read_segment(cold, damaged)
    except UNREADABLE:
        return  # torn: everything before the tear was yielded


def table_of(
    folder: Path, stem: str, schema: pa.Schema, damaged: OnDamage | None = None
) -> pa.Table:
    """All rows of a table; segments that are not of its schema count as damaged.

    Args:
        damaged: hears of segments that cannot be read.
    """
    kept: list[pa.RecordBatch] = []
    for path in segment_files(folder, stem):
        for batch in read_segment(path, damaged):
            if batch.schema.equals(schema):
                kept.append(batch)
            elif damaged is not None:
                damaged(path)
    return pa.Table.from_batches(kept, schema=schema)


def _read_sealed(path: Path, damaged: OnDamage | None) -> Iterator[pa.RecordBatch]:
    try:
        with open_sealed(path) as file:
            yield from file.iter_batches(batch_size=1 << 17)
    except FileNotFoundError:
        if path.parent.is_dir():  # joined with others, longer ago than the recorder keeps the parts
            _tell(damaged, path)
    except UNREADABLE:
        if damaged is not None:
            damaged(path)


@contextlib.contextmanager
def open_sealed(path: Path) -> Iterator[pq.ParquetFile]:
    """A Parquet file of a run, opened. Raises OSError, ArrowException: see :data:`UNREADABLE`."""
    with untrusted.opened(path, MOST_BYTES) as source:
        check_footer(source, path)
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            about = file.metadata
            groups = (about.row_group(place) for place in range(about.num_row_groups))
            if sum(group.total_byte_size for group in groups) > _MOST_INFLATED:
                raise pa.ArrowInvalid(f"{path} would inflate to more than any of ours")
            yield file


def _tell(damaged: OnDamage | None, path: Path) -> None:
    if damaged is not None:
        damaged(path)


def read_between(
    path: Path, schema: pa.Schema, begin_ns: int, end_ns: int, damaged: OnDamage | None = None
) -> pa.Table:
    """Rows of one segment in [begin, end]; of a sealed one only those row groups are read.

    Args:
        damaged: hears of a sealed segment that cannot be read.
    """
    if path.suffix == ".parquet":
        at = pc.field("time_ns")
        try:
            table = read_sealed(path, None, (at >= begin_ns) & (at <= end_ns))
            return table.select(schema.names).cast(schema)
        except FileNotFoundError:
            return schema.empty_table()
        except (*UNREADABLE, KeyError):
            if damaged is not None:
                damaged(path)
            return schema.empty_table()
    batches = [batch for batch in read_segment(path, damaged) if batch.schema.equals(schema)]
    table = pa.Table.from_batches(batches, schema=schema)
    at = table["time_ns"]
    return table.filter(pc.and_(pc.greater_equal(at, begin_ns), pc.less_equal(at, end_ns)))


def read_sealed(path: Path, columns: Sequence[str] | None, filters: pc.Expression) -> pa.Table:
    """Rows of a Parquet file of a run that pass a filter; columns that it has not are left out.

    Raises:
        OSError, ArrowException: see :data:`UNREADABLE`.
    """
    with open_sealed(path) as file:
        present = file.schema_arrow.names
    kept = None if columns is None else [name for name in columns if name in present]
    with untrusted.opened(path, MOST_BYTES) as source:
        return pq.read_table(
            source,
            columns=kept,
            filters=filters,
            use_threads=False,
            page_checksum_verification=True,
        )
