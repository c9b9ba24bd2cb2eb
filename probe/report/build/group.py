"""The report of a group: what its meters say of all of it, and a report of each training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...analysis.carbon_and_price import Tariffs
from ...analysis.group import GroupAnalysis
from ...model import SCHEMA_VERSION
from .report import of_group, of_training

_OF_RUN = (
    "id",
    "name",
    "status",
    "ended_by",
    "exit_code",
    "started",
    "ended",
    "duration_s",
    "host",
    "directory",
)
_OF_REPORT = ("sources", "overhead", "recorder", "machine", "carbon", "cost", "absent", "gaps")


def build_group(path: Path, *, tariffs: Tariffs, with_rates: bool = True) -> dict[str, Any]:
    """Read a group. Raises StoreError, StoreVersionError."""
    group = GroupAnalysis(path)
    whole = of_group(group.analysis, tariffs)
    runs = [
        of_training(group.training(number), tariffs, with_rates=with_rates)
        for number in group.readers
    ]
    members = [
        _member(number, report, group) for number, report in zip(group.readers, runs, strict=True)
    ]
    return {
        "schema": SCHEMA_VERSION,
        "group": {
            **{key: whole["run"][key] for key in _OF_RUN},
            "steps": sum(member["steps"] for member in members),
            "members": members,
            "total": whole["total"],
            "shared": group.shared(),
            "rest": group.rest(),
            **{key: whole[key] for key in _OF_REPORT},
            "warnings": whole["warnings"],
        },
        "runs": runs,
    }


def _member(number: int, report: dict[str, Any], group: GroupAnalysis) -> dict[str, Any]:
    run, total = report["run"], report["total"]
    begin_ns = group.time_ns[number][0]
    return {
        "number": number,
        "id": run["id"],
        "name": run["name"],
        "process": run["process"],
        "command": run["command"],
        "status": run["status"],
        "ended_by": run["ended_by"],
        "exit_code": run["exit_code"],
        "begin_s": (begin_ns - group.analysis.run[0]) / 1e9,
        "duration_s": run["duration_s"],
        "ranks": run["ranks"],
        "steps": run["steps"],
        "energy_j": total["energy_j"],
        "modelled_energy_j": total["modelled_energy_j"],
        "shared": group.training_shares(number),
    }
