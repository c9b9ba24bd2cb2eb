"""Writing Parquet files of a run: whole or not at all, with checksums, under their own name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from . import new_files
from .segment_checksums import sign_footer

GROUP_ROWS = 1 << 16
Fence = Callable[[], None]
"""Called before a file appears or goes; raises where a newer recorder has taken over."""


def no_fence() -> None:
    """Of what only one process writes."""


def write_sealed(
    target: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    about: Mapping[str, str] | None = None,
    fence: Fence = no_fence,
    group_rows: int = GROUP_ROWS,
    sync: bool = True,
) -> int:
    """Write a Parquet file batch by batch: temporary name, sync, rename.

    Args:
        target: replaced if it is there.
        schema: of the batches.
        batches: in order.
        about: goes into the file's own metadata.
        fence: see :data:`Fence`.
        group_rows: rows of a group, or a batch more.
        sync: it is on disk before it gets its name; not needed of what can be made again.

    Returns:
        The number of rows. Without rows there is a file, too.

    Raises:
        OSError: no space, no right; nothing has changed then.
    """
    temporary = target.with_name(f".{target.stem}.new")
    rows = 0
    try:
        with new_files.open_temporary(temporary) as file:
            writer = _writer(file, schema)
            try:
                for group in _groups(batches, group_rows):
                    writer.write_table(pa.Table.from_batches(group, schema=schema))
                    rows += sum(batch.num_rows for batch in group)
                if about:
                    writer.add_key_value_metadata(dict(about))
            finally:
                writer.close()
            sign_footer(file, target.stem)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        fence()
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return rows


def _writer(file: object, schema: pa.Schema) -> pq.ParquetWriter:
    encoding = {field.name: _encoding(field) for field in schema}
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=False,
        column_encoding=encoding,
        write_page_checksum=True,  # a flipped bit must not become another figure
    )


def _encoding(field: pa.Field) -> str:
    """How a column is packed before it is compressed."""
    if pa.types.is_floating(field.type):
        return "BYTE_STREAM_SPLIT"
    if field.name == "payload":  # −1, times and bytes in turn: deltas would be as long as they are
        return "PLAIN"
    return "DELTA_BINARY_PACKED"  # mostly steady increments


def _groups(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[list[pa.RecordBatch]]:
    pending: list[pa.RecordBatch] = []
    number = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            number += batch.num_rows
        if number >= rows:
            yield pending
            pending, number = [], 0
    if pending:
        yield pending
