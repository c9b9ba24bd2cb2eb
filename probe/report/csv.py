"""The phases of a run as CSV (RFC 4180): a row per phase and device, base units, else empty."""

from __future__ import annotations

import csv
import io
from typing import Any

COLUMNS = ("run", "name", "started", "duration_s", "device", "phase", "count", "time_s", "energy_j",
           "energy_j_low", "energy_j_high", "bounds_j_low", "bounds_j_high", "power_w", "status",
           "provenance")


def render(report: dict[str, Any]) -> str:
    """A header and the rows of ``phases``."""
    run = report["run"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in report["phases"]:
        low, high = row["energy_j_interval"] or (None, None)
        least, most = row["bounds_j"] or (None, None)
        writer.writerow([
            run["id"], _text(run["name"]), run["started"], run["duration_s"], row["device"],
            _text(row["phase"]), row["count"], row["time_s"], row["energy_j"], low, high, least,
            most, row["power_w"], row["status"], row["provenance"],
        ])
    return text.getvalue().removesuffix("\r\n")


def _text(value: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
