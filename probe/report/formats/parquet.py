"""The phases of a run as Parquet: the columns of the CSV, typed; the whole report as metadata."""

from __future__ import annotations

import json
from typing import Any

from ..model import Report
from .csv import COLUMNS, rows

_TEXTS = {"run", "name", "started", "device", "phase", "status", "provenance"}


def render(report: Report) -> bytes:
    """A row per phase and device; ``phasewatt`` in the metadata is the report's JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [(name, _type(name)) for name in COLUMNS],
        metadata={"phasewatt": json.dumps(report.to_dict(), allow_nan=False)},
    )
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(list(rows(report)), schema=schema)
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _type(name: str) -> Any:
    import pyarrow as pa

    if name in _TEXTS:
        return pa.string()
    return pa.int64() if name == "count" else pa.float64()
