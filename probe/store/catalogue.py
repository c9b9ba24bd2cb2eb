"""One summary per run of a directory, from run.json alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import ProbeError
from .reader import RunReader
from .runs import list_runs


def summaries(directory: Path) -> list[dict[str, Any]]:
    """Newest first; a run that cannot be read stands there with the reason."""
    rows: list[dict[str, Any]] = []
    for path in list_runs(directory):
        try:
            reader = RunReader(path)
            meta = reader.meta
            rows.append({
                "id": path.name,
                "name": meta.get("name") or "",
                "status": str(reader.status),
                "started": meta.get("started"),
                "duration_s": (reader.end_ns() - reader.begin_ns) / 1e9,
                "steps": meta.get("steps"),
                "energy_j": (meta.get("total") or {}).get("energy_j"),
                "modelled_energy_j": (meta.get("total") or {}).get("modelled_energy_j"),
                "problem": None,
            })
        except (ProbeError, ValueError, KeyError, TypeError) as error:
            rows.append({"id": path.name, "name": "", "status": "unreadable", "started": None,
                         "duration_s": None, "steps": None, "energy_j": None,
                         "modelled_energy_j": None, "problem": str(error)})
    return rows
