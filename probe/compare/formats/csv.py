"""The comparison as CSV (RFC 4180): a row per cell and other side, totals first, base units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...report.formats.csv import table

COLUMNS = (
    "base",
    "other",
    "stage",
    "class",
    "time_s",
    "time_s_low",
    "time_s_high",
    "time_verdict",
    "energy_j",
    "energy_j_low",
    "energy_j_high",
    "progress_j",
    "cost_j",
    "verdict",
    "share",
    "status",
    "provenance",
)


def render(comparison: dict[str, Any]) -> str:
    """A header, then rows; what is unknown is empty."""
    return table(COLUMNS, _rows(comparison))


def _rows(comparison: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for result in comparison["comparisons"]:
        sides = {"base": comparison["base"]["name"], "other": result["other"]["name"]}
        time, energy = result["time_s"], result["energy_j"]
        yield sides | {
            "stage": "all",
            "class": "all",
            "time_s": time["gain"],
            **_limits("time_s", time["interval"]),
            "time_verdict": time["verdict"],
            "energy_j": energy["gain"],
            **_limits("energy_j", energy["interval"]),
            "progress_j": energy["progress"],
            "cost_j": energy["cost"],
            "verdict": energy["verdict"],
            "share": 1.0 if result["four"] else None,
            "status": None,
            "provenance": energy["provenance"],
        }
        for cell in result["cells"]:
            yield (
                sides
                | cell
                | _limits("time_s", cell["time_s_interval"])
                | _limits("energy_j", cell["energy_j_interval"])
            )


def _limits(name: str, interval: list[float | None] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}
