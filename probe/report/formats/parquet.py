"""The rows of the CSV as Parquet, typed; the whole report as metadata."""

from __future__ import annotations

import json
from typing import Any

from ..group_model import GroupReport
from ..model import Report
from .csv import content

_TEXTS = {
    *("run", "name", "started", "device", "phase", "status", "provenance"),
    *("row", "member_status", "ended_by", "in_total", "shared"),
}
_COUNTS = {"count", "member", "steps"}


def render(report: Report | GroupReport) -> bytes:
    """The rows of the CSV; ``phasewatt`` in the metadata is the report's JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, rows = content(report)
    schema = pa.schema(
        [(name, _type(name)) for name in columns],
        metadata={"phasewatt": json.dumps(report.to_dict(), allow_nan=False)},
    )
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(list(rows), schema=schema)
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _type(name: str) -> Any:
    import pyarrow as pa

    if name in _TEXTS:
        return pa.string()
    return pa.int64() if name in _COUNTS else pa.float64()
