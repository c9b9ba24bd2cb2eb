"""``probe ls`` for a terminal. (No format of a single run: takes the catalogue's rows.)"""

from __future__ import annotations

from typing import Any

from ..report.numbers import duration, energy


def listing(rows: list[dict[str, Any]]) -> str:
    """One line per run."""
    head = ["id", "name", "status", "duration", "steps", "energy"]
    body = [
        [
            row["id"],
            row["name"],
            row["status"],
            duration(row["duration_s"]) if row["duration_s"] is not None else "",
            str(row["steps"]) if row["steps"] is not None else "",
            row["problem"] or _energy(row),
        ]
        for row in rows
    ]
    widths = [max(len(r[i]) for r in [head, *body]) for i in range(len(head))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip()
        for r in [head, *body]
    )


def _energy(row: dict[str, Any]) -> str:
    if row["energy_j"] is not None:
        return energy(row["energy_j"])
    if row["modelled_energy_j"] is not None:
        return f"({energy(row['modelled_energy_j'])} modelled)"
    return "—"
