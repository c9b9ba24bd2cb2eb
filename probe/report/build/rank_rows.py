"""What the report says of each rank: its devices' energy, its waiting, its time without a meter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...analysis.base import RunAnalysis
from ...analysis.phase_rows import row
from ...model import Phase, Provenance, Status
from ...store.reader import RunReader
from ...timeline.ddp_reductions import row as communication_row
from ...timeline.phase_totals import PhaseTotals
from ...timeline.rank_waiting import balance


def rank_rows(
    phase_totals: Sequence[PhaseTotals],
    owned: Mapping[int, Sequence[str]],
    sources: Sequence[Mapping[str, Any]],
    analysis: RunAnalysis,
) -> list[dict[str, Any]]:
    """What each rank used of devices that are its own; null where it shares them."""
    counted = {source["device"]: source["energy_j"] for source in sources if source["in_total"]}
    hosts = {
        member.rank: member.host for member in analysis.reader.members if member.role == "rank"
    }
    rows = []
    for phases in phase_totals:
        names = [name for name in owned.get(phases.rank, ()) if counted.get(name) is not None]
        rows.append(
            {
                "rank": phases.rank,
                "host": hosts.get(phases.rank, ""),
                "devices": names,
                "steps": phases.steps,
                "energy_j": sum(counted[name] for name in names) if names else None,
            }
        )
    return rows


def waiting_of_ranks(reader: RunReader, report: dict[str, Any]) -> dict[str, Any] | None:
    """Who waits for whom; the joules of waiting at the mean power of a rank's own devices."""
    if not report["ranks"]:
        return None
    waiting = balance(reader)
    if waiting is None:
        return None
    by_rank = {row["rank"]: row for row in report["ranks"]}
    for waited in waiting["ranks"]:
        joules = by_rank[waited["rank"]]["energy_j"] if waited["rank"] in by_rank else None
        waited["waiting_j"] = (
            None
            if joules is None
            else (
                joules
                * min(
                    1.0,
                    waited["waiting_s"]
                    * by_rank[waited["rank"]]["steps"]
                    / max(report["run"]["duration_s"], 1e-9),
                )
            )
        )
    return waiting


def communication_rows(analysis: RunAnalysis) -> list[dict[str, Any]]:
    """What waiting for other ranks, and sharing with their traffic, cost each rank per step."""
    reductions, rows = analysis.reductions(), []
    hosts = {
        member.rank: member.host for member in analysis.reader.members if member.role == "rank"
    }
    for phases in analysis.totals_on_device():
        waited = sum(
            seconds
            for code, seconds in phases.seconds.items()
            if phases.name(code) == Phase.COMMUNICATION
        )
        row = communication_row(
            phases.rank,
            hosts.get(phases.rank, ""),
            reductions.get(phases.rank) or {},
            waited,
            phases.steps,
        )
        rows += [] if row is None else [row]
    return rows


def time_rows(
    shown: Sequence[PhaseTotals], run: tuple[int, int], *, several: bool
) -> list[dict[str, Any]]:
    """Rows of a run without a meter, or of several ranks that share theirs: time, no joules."""
    rows = []
    for phases in shown:
        label = f"rank{phases.rank}" if several else "host"
        for code, seconds in phases.seconds.items():
            rows.append(_time_row(phases.name(code), label, phases.counts.get(code, 0), seconds))
        rest = max(0.0, (run[1] - run[0]) / 1e9 - sum(phases.seconds.values()))
        rows.append(_time_row(str(Phase.UNATTRIBUTED), label, 1, rest))
    return rows


def _time_row(phase: str, label: str, count: int, seconds: float) -> dict[str, Any]:
    return row(
        phase, label, count, seconds, None, None, Status.NOT_IDENTIFIABLE, Provenance.MEASURED
    )
