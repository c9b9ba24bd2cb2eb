"""The report of a command that nothing was recorded of, from its run.json alone: in no time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ...model import Phase, Provenance, Status
from ...store.trainings import nothing_trained
from .empty import empty


def brief(path: Path, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The report's JSON (schema 1) of a run whose run.json says that nothing was recorded."""
    seconds = float(meta.get("duration_s") or 0.0)
    report = empty("")
    started = datetime.fromisoformat(meta["started"])
    report["run"] |= {
        "id": path.name,
        "name": meta.get("name") or "",
        "status": meta["status"],
        "ended_by": meta.get("ended_by") or "",
        "exit_code": meta.get("exit_code"),
        "started": meta["started"],
        "ended": (started + timedelta(seconds=seconds)).isoformat(),
        "duration_s": seconds,
        "host": meta.get("host") or "",
        "python": meta.get("python") or "",
        "directory": str(path),
        "note": nothing_trained(path),
    }
    report["phases"] = [
        {
            "phase": str(Phase.UNATTRIBUTED),
            "device": "host",
            "count": 1,
            "time_s": seconds,
            "energy_j": None,
            "energy_j_interval": None,
            "power_w": None,
            "status": str(Status.NOT_IDENTIFIABLE),
            "bounds_j": None,
            "provenance": str(Provenance.MEASURED),
        }
    ]
    lines = [nothing_trained(path), *(meta.get("warnings") or ())]
    report["warnings"] = [line for line in lines if isinstance(line, str) and line]
    return report
