"""The report of a run of which nothing was recorded: every key, no figure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ...model import SCHEMA_VERSION

_NO_TOTAL = (
    "energy_j energy_j_interval co2e_g modelled_energy_j modelled_co2e_g coverage cost "
    "modelled_cost"
).split()
_ROWS = "sources phases groups ranks communication hosts attempts rates power absent".split()


def empty(reason: str) -> dict[str, Any]:
    """The report's JSON (schema 1) with ``reason`` as its only warning."""
    now = datetime.now(UTC).isoformat()
    return {
        "schema": SCHEMA_VERSION,
        "run": {
            "id": "",
            "name": "not recorded",
            "status": "unwatched",
            "ended_by": "",
            "exit_code": None,
            "started": now,
            "ended": now,
            "duration_s": 0.0,
            "part_s": None,
            "host": "",
            "python": "",
            "ranks": 1,
            "steps": 0,
            "config": None,
            "data": "unknown",
            "directory": "",
            "note": "",
        },
        "total": dict.fromkeys(_NO_TOTAL),
        **{name: [] for name in _ROWS},
        "overhead": {"share_of_step": None, "method": "unknown: no step was recorded"},
        "recorder": None,
        "machine": {},
        "torch": "unknown",
        "carbon": None,
        "cost": None,
        "gaps": {"count": 0, "edges_lost": 0},
        "values": {},
        "warnings": [reason],
        "balance": None,
    }
