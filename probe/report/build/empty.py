"""The report of a run of which nothing was recorded."""

from __future__ import annotations

from datetime import UTC, datetime

from ..model import Overhead, Report, RunInfo, Totals

NO_OVERHEAD = Overhead(share_of_step=None, method="unknown: no step was recorded")


def empty(reason: str) -> Report:
    """A report without figures; ``reason`` is its only warning."""
    now = datetime.now(UTC).isoformat()
    return Report(
        run=RunInfo(
            id="", name="not recorded", status="unwatched", started=now, ended=now, duration_s=0.0
        ),
        total=Totals(),
        overhead=NO_OVERHEAD,
        warnings=(reason,),
    )
