"""The report of a command that nothing was recorded of, from its run.json alone: in no time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ...model import Phase, Provenance, Status
from ...store.run_fields import scheduler_of
from ...store.trainings import nothing_trained
from ..model import PhaseRow, Report, RunInfo, Totals
from .empty import NO_OVERHEAD


def brief(path: Path, meta: Mapping[str, Any]) -> Report:
    """The report of a run whose run.json says that nothing was recorded."""
    seconds = float(meta.get("duration_s") or 0.0)
    started = datetime.fromisoformat(meta["started"])
    note = nothing_trained(path)
    lines = [note, *(meta.get("warnings") or ())]
    return Report(
        run=RunInfo(
            id=path.name,
            name=meta.get("name") or "",
            status=meta["status"],
            ended_by=meta.get("ended_by") or "",
            exit_code=meta.get("exit_code"),
            started=meta["started"],
            ended=(started + timedelta(seconds=seconds)).isoformat(),
            duration_s=seconds,
            host=meta.get("host") or "",
            python=meta.get("python") or "",
            directory=str(path),
            note=note,
            scheduler=scheduler_of(meta),
            simulated=bool(meta.get("simulated")),
        ),
        total=Totals(),
        phases=(
            PhaseRow(
                phase=str(Phase.UNATTRIBUTED),
                device="host",
                count=1,
                time_s=seconds,
                energy_j=None,
                energy_j_interval=None,
                power_w=None,
                status=Status.NOT_IDENTIFIABLE,
                bounds_j=None,
                provenance=Provenance.MEASURED,
            ),
        ),
        overhead=NO_OVERHEAD,
        warnings=tuple(line for line in lines if isinstance(line, str) and line),
    )
