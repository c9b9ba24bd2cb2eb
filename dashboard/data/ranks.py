"""The ranks of a job, as the report tells them; of one that goes on, as far as is known."""

from __future__ import annotations

from typing import Any

from probe.timeline.rank_waiting import balance

from ..chart_data import Crew
from .run import OpenRun


def crew(run: OpenRun) -> Crew:
    """Raises StoreError."""
    return run.remember("crew", lambda: _crew(run))


def _crew(run: OpenRun) -> Crew:
    if not run.live:
        told = run.report()
        return Crew(
            False,
            told["ranks"],
            told["hosts"],
            told["communication"],
            told["attempts"],
            told["balance"],
        )
    reader = run.reader
    members = {one.rank: one for one in reader.members if one.role == "rank"}
    ranks: list[dict[str, Any]] = [
        {"rank": rank, "host": one.host, "steps": None, "devices": [], "energy_j": None}
        for rank, one in sorted(members.items())
    ]
    return Crew(True, ranks, balance=balance(reader))
