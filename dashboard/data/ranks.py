"""The ranks of a job: from the report, or what is known so far of a live job."""

from __future__ import annotations

from probe.report.model import RankRow
from probe.timeline.rank_waiting import balance

from ..chart_data import JobView
from .cache import cached
from .run import OpenRun


@cached
def job_view(run: OpenRun) -> JobView:
    """The ranks of a run's job. Raises StoreError."""
    if not run.live:
        report = run.report()
        return JobView(
            False, report.ranks, report.hosts, report.communication, report.attempts, report.balance
        )
    reader = run.reader
    members = {member.rank: member for member in reader.members if member.role == "rank"}
    ranks = [
        RankRow(rank=rank, host=member.host, devices=(), steps=0, energy_j=None)
        for rank, member in sorted(members.items())
    ]
    return JobView(True, ranks, balance=balance(reader))
