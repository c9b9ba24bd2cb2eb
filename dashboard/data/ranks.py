"""The ranks of a job: from the report, or what is known so far of a live job."""

from __future__ import annotations

from typing import Any

from probe.timeline.rank_waiting import balance

from ..chart_data import JobView
from .cache import cached
from .run import OpenRun


@cached
def job_view(run: OpenRun) -> JobView:
    """The ranks of a run's job. Raises StoreError."""
    if not run.live:
        report = run.report()
        names = ("ranks", "hosts", "communication", "attempts", "balance")
        return JobView(False, *(report[name] for name in names))
    reader = run.reader
    members = {member.rank: member for member in reader.members if member.role == "rank"}
    ranks: list[dict[str, Any]] = [
        {"rank": rank, "host": member.host, "steps": None, "devices": [], "energy_j": None}
        for rank, member in sorted(members.items())
    ]
    return JobView(True, ranks, balance=balance(reader))
