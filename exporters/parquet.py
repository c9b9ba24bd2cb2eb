"""Parquet: what was recorded as one table, for pandas, polars or DuckDB.

probe export RUN --to parquet                        every sample of every meter
probe export RUN --to parquet --set table=spans      every phase of every rank
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from probe.timeline.rank_timeline import timeline

from ._shared.run import ExportRefused, StoredRun, write_whole

_TIME = pa.timestamp("ns", tz="UTC")
SAMPLES = pa.schema(
    [
        ("time", _TIME),
        ("value", pa.float64()),
        ("unit", pa.dictionary(pa.int16(), pa.string())),
        ("quantity", pa.dictionary(pa.int16(), pa.string())),
        ("device", pa.dictionary(pa.int16(), pa.string())),
        ("source", pa.dictionary(pa.int16(), pa.string())),
        ("provenance", pa.dictionary(pa.int16(), pa.string())),
    ]
)
SPANS = pa.schema(
    [
        ("begin", _TIME),
        ("end", _TIME),
        ("phase", pa.dictionary(pa.int16(), pa.string())),
        ("rank", pa.int32()),
        ("step", pa.int64()),
        ("clock", pa.dictionary(pa.int16(), pa.string())),
    ]
)


@dataclass(frozen=True, slots=True)
class Parquet:
    """All samples, or with --set table=spans all phases, as one Parquet table."""

    name: ClassVar[str] = "parquet"
    output: ClassVar[str] = "{id}.parquet"

    table: str = "samples"

    def export(self, run: StoredRun, output: Path) -> str:
        tables = {"samples": samples, "spans": spans}
        if self.table not in tables:
            raise ExportRefused(f"table={self.table!r}: write {' or '.join(tables)}")
        table = tables[self.table](run)
        content = io.BytesIO()
        pq.write_table(
            table.replace_schema_metadata({"phasewatt.run": run.id}), content, compression="zstd"
        )
        write_whole(output, content.getvalue())
        return f"{output}: {table.num_rows} {self.table}"


EXPORTER = Parquet()


def samples(run: StoredRun) -> pa.Table:
    """A row per reading; ``value`` in the meter's base unit, counters cumulative."""
    parts = []
    for series in run.reader.series():
        source, number = series.source, len(series.time_ns)
        labels = (source.unit, source.quantity, source.device, source.id, str(source.provenance))
        parts.append(
            pa.table(
                [
                    pa.array(series.time_ns + run.ahead_ns, _TIME),
                    pa.array(series.value),
                    *(_repeated(text, number) for text in labels),
                ],
                schema=SAMPLES,
            )
        )
    return pa.concat_tables(parts).sort_by("time") if parts else SAMPLES.empty_table()


def spans(run: StoredRun) -> pa.Table:
    """A row per span, on the host's clock and, where it is known, on the device's."""
    parts = []
    for rank in run.reader.ranks():
        for clock in ("host", "device"):
            phases = timeline(run.reader, rank, device=clock == "device")
            if phases is None or not len(phases.code):
                continue
            codes, place = np.unique(phases.code, return_inverse=True)
            names = pa.array([phases.name(int(code)) for code in codes], pa.string())
            step = np.searchsorted(np.sort(phases.step_ns), phases.begin_ns, "right")
            number = len(phases.code)
            parts.append(
                pa.table(
                    [
                        pa.array(phases.begin_ns + run.ahead_ns, _TIME),
                        pa.array(phases.end_ns + run.ahead_ns, _TIME),
                        pa.DictionaryArray.from_arrays(pa.array(place, pa.int16()), names),
                        pa.array(np.full(number, rank, np.int32)),
                        pa.array(step.astype(np.int64)),
                        _repeated(clock, number),
                    ],
                    schema=SPANS,
                )
            )
    return pa.concat_tables(parts) if parts else SPANS.empty_table()


def _repeated(text: str, number: int) -> pa.DictionaryArray:
    index: npt.NDArray[np.int16] = np.zeros(number, np.int16)
    return pa.DictionaryArray.from_arrays(pa.array(index), pa.array([text], pa.string()))
