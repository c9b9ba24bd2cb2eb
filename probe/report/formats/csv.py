"""The phases of a run as CSV (RFC 4180): a row per phase and device, base units, else empty."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ..model import Report
from ..usage_tables import CPU_CORES, RATES

COLUMNS = (
    "run",
    "name",
    "started",
    "duration_s",
    "device",
    "phase",
    "count",
    "time_s",
    "energy_j",
    "energy_j_low",
    "energy_j_high",
    "bounds_j_low",
    "bounds_j_high",
    "power_w",
    "status",
    "provenance",
    "memory_mean_bytes",
    "memory_peak_bytes",
    *RATES,
    "cpu_cores",
)


def render(report: Report) -> str:
    """A header and the rows of ``phases``."""
    return table(COLUMNS, rows(report))


Cell = str | int | float | None


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> str:
    """A header and one line per row; what a row does not have is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        values: list[Cell] = [row.get(name) for name in columns]
        cells = [plain(value) if isinstance(value, str) else value for value in values]
        writer.writerow(cells)
    return text.getvalue().removesuffix("\r\n")


def rows(report: Report) -> Iterator[dict[str, Cell]]:
    """A row per phase and device under ``COLUMNS``, in their order."""
    run = report.run
    rates = {(row.device, row.phase, row.quantity): row.value for row in report.rates}
    processes = {row.device for row in report.rates if row.quantity == CPU_CORES}
    for row in report.phases:
        low, high = row.energy_j_interval or (None, None)
        least, most = row.bounds_j or (None, None)
        cells: dict[str, Cell] = {
            "run": run.id,
            "name": run.name,
            "started": run.started,
            "duration_s": run.duration_s,
            "device": row.device,
            "phase": row.phase,
            "count": row.count,
            "time_s": row.time_s,
            "energy_j": row.energy_j,
            "energy_j_low": low,
            "energy_j_high": high,
            "bounds_j_low": least,
            "bounds_j_high": most,
            "power_w": row.power_w,
            "status": str(row.status),
            "provenance": "simulated" if run.simulated else str(row.provenance),
            "memory_mean_bytes": row.memory_mean_bytes,
            "memory_peak_bytes": row.memory_peak_bytes,
            "cpu_cores": rates.get((_process(row.device, processes), row.phase, CPU_CORES)),
            **{name: rates.get((row.device, row.phase, name)) for name in RATES},
        }
        yield {name: cells[name] for name in COLUMNS}


def _process(device: str, processes: Collection[str]) -> str:
    """The process whose CPU time goes with a device's row: its rank's, where that is clear."""
    return device if len(processes) != 1 else next(iter(processes))


def plain(value: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
