"""One summary per run of a directory, from run.json alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ProbeError
from .reader import RunReader
from .runs import list_runs


def summaries(directory: Path) -> list[dict[str, Any]]:
    """Newest first; a run that cannot be read stands there with the reason."""
    return [summary(path) for path in list_runs(directory)]


def summary(path: Path) -> dict[str, Any]:
    """Of one run; ``problem`` says why it cannot be read."""
    try:
        reader = RunReader(path)
        return _row(path, reader, reader.meta)
    except (ProbeError, ValueError, KeyError, TypeError, AttributeError) as error:
        return dict.fromkeys(_FIELDS) | {"id": path.name, "name": "", "status": "unreadable",
                                         "problem": str(error)}


def _row(path: Path, reader: RunReader, meta: Mapping[str, Any]) -> dict[str, Any]:
    total, logged = meta.get("total") or {}, meta.get("logged") or {}
    return {
        "id": path.name,
        "name": meta.get("name") or "",
        "status": str(reader.status),
        "started": meta.get("started"),
        "duration_s": (reader.end_ns() - reader.begin_ns) / 1e9,
        "steps": meta.get("steps"),
        "energy_j": total.get("energy_j"),
        "modelled_energy_j": total.get("modelled_energy_j"),
        "samples": logged.get("samples"),
        "tokens": logged.get("tokens"),
        "power": meta.get("power"),
        "problem": None,
    }


_FIELDS = ("id", "name", "status", "started", "duration_s", "steps", "energy_j",
           "modelled_energy_j", "samples", "tokens", "power", "problem")
