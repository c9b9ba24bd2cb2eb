"""The phases of a run as Parquet: the columns of the CSV, typed; the whole report as metadata."""

from __future__ import annotations

import json
from typing import Any

from .csv import COLUMNS

_TEXTS = {"run", "name", "started", "device", "phase", "status", "provenance"}


def render(report: dict[str, Any]) -> bytes:
    """A row per phase and device; ``phasewatt`` in the metadata is the report's JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    run = report["run"]
    rows = []
    for row in report["phases"]:
        low, high = row["energy_j_interval"] or (None, None)
        least, most = row["bounds_j"] or (None, None)
        rows.append({
            "run": run["id"], "name": run["name"], "started": run["started"],
            "duration_s": run["duration_s"], "energy_j_low": low, "energy_j_high": high,
            "bounds_j_low": least, "bounds_j_high": most,
            **{name: row[name] for name in COLUMNS if name in row},
        })
    schema = pa.schema([(name, _type(name)) for name in COLUMNS], metadata={
        "phasewatt": json.dumps(report, allow_nan=False)})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _type(name: str) -> Any:
    import pyarrow as pa

    if name in _TEXTS:
        return pa.string()
    return pa.int64() if name == "count" else pa.float64()
