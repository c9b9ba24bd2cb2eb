"""Stored segments as arrays: columns of any table, and edges as their ring held them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..ring.layout import Record
from ..ring.reader import SLOT_DTYPE
from .segment_reader import OnDamage, read_between, segment_files, table_of
from .segments import EDGES


def columns_of(
    folder: Path, stem: str, schema: pa.Schema, damaged: OnDamage | None = None
) -> dict[str, npt.NDArray[Any]]:
    """All segments of one kind, hot and sealed.

    Args:
        damaged: hears of sealed segments that cannot be read.
    """
    table = table_of(folder, stem, schema, damaged)
    return {name: table.column(name).to_numpy() for name in schema.names}


def edges_of(
    folder: Path,
    stem: str,
    part: tuple[int, int] | None = None,
    ahead_ns: int = 0,
    damaged: OnDamage | None = None,
) -> npt.NDArray[np.void]:
    """The edges of a ring, as SLOT_DTYPE.

    Args:
        part: only edges between these two instants, in ns.
        ahead_ns: added to the edges' times; ``part`` is in the resulting time.
        damaged: hears of sealed segments that cannot be read.
    """
    if part is None:
        columns = columns_of(folder, stem, EDGES, damaged)
    else:
        begin_ns, end_ns = part[0] - ahead_ns, part[1] - ahead_ns
        segments = segment_files(folder, stem)
        tables = [read_between(path, EDGES, begin_ns, end_ns, damaged) for path in segments]
        table = pa.concat_tables([EDGES.empty_table(), *tables])
        columns = {name: table.column(name).to_numpy() for name in EDGES.names}
    rows = np.zeros(len(columns["time_ns"]), SLOT_DTYPE)
    for name, column in columns.items():
        rows[name] = column
    return later(rows, ahead_ns)


def later(rows: npt.NDArray[np.void], ahead_ns: int) -> npt.NDArray[np.void]:
    """Edges moved in place to another clock; device times are on the clock of their host."""
    if ahead_ns:
        rows["time_ns"] = rows["time_ns"].astype(np.int64) + ahead_ns
        rows["payload"] += np.where(rows["kind"] == Record.DEVICE, ahead_ns, 0)
    return rows


def once(parts: list[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """Join what several recorders wrote of one ring; a record written twice counts once."""
    if len(parts) == 1 and len(parts[0]) < 2:
        return parts[0]
    rows = np.concatenate(parts)
    ahead = np.diff(rows["sequence"].astype(np.int64))
    if np.all((ahead > 0) | (ahead < -(1 << 31))):
        return rows
    # 32-bit sequences start again after four billion records; the time distinguishes the laps.
    _, first = np.unique(rows[["time_ns", "sequence"]], return_index=True)
    return rows[first]
