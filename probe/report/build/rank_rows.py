"""What the report says of each rank: its devices' energy, its waiting, its time without a meter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...analysis.base import RunAnalysis
from ...analysis.phase_rows import row
from ...model import Phase, Provenance, Status
from ...store.reader import RunReader
from ...timeline.ddp_reductions import row as communication_row
from ...timeline.phase_totals import PhaseTotals
from ...timeline.rank_waiting import MainRings, balance
from ..all_devices import SUMMED_THREADS
from ..model import CommunicationRow, PhaseRow, RankBalance, RankRow, Report, SourceRow, WaitingRow


def rank_rows(
    phase_totals: Sequence[PhaseTotals],
    owned: Mapping[int, Sequence[str]],
    sources: Sequence[SourceRow],
    analysis: RunAnalysis,
) -> tuple[RankRow, ...]:
    """What each rank used of devices that are its own; null where it shares them."""
    counted = {
        source.device: source.energy_j
        for source in sources
        if source.in_total and source.energy_j is not None
    }
    hosts = {
        member.rank: member.host for member in analysis.reader.members if member.role == "rank"
    }
    rows = []
    for phases in phase_totals:
        names = [name for name in owned.get(phases.rank, ()) if name in counted]
        rows.append(
            RankRow(
                rank=phases.rank,
                host=hosts.get(phases.rank, ""),
                devices=tuple(names),
                steps=phases.steps,
                energy_j=sum(counted[name] for name in names) if names else None,
            )
        )
    return tuple(rows)


def waiting_of_ranks(reader: RunReader, report: Report, rings: MainRings) -> RankBalance | None:
    """Who waits for whom; the joules of waiting at the mean power of a rank's own devices."""
    waiting = balance(reader, rings)
    if waiting is None:
        return None
    by_rank = {row.rank: row for row in report.ranks}
    rows = [
        replace(row, waiting_j=_waiting_j(row, by_rank.get(row.rank), report.run.duration_s))
        for row in waiting.ranks
    ]
    return replace(waiting, ranks=tuple(rows))


def _waiting_j(waited: WaitingRow, rank: RankRow | None, run_s: float) -> float | None:
    if rank is None or rank.energy_j is None:
        return None
    return rank.energy_j * min(1.0, waited.waiting_s * rank.steps / max(run_s, 1e-9))


def communication_rows(analysis: RunAnalysis) -> tuple[CommunicationRow, ...]:
    """What waiting for other ranks, and sharing with their traffic, cost each rank per step."""
    reductions, rows = analysis.reductions(), []
    members = {member.rank: member for member in analysis.reader.members if member.role == "rank"}
    for phases in analysis.totals_on_device():
        waited = sum(
            seconds
            for code, seconds in phases.seconds.items()
            if phases.name(code) == Phase.COMMUNICATION
        )
        member = members.get(phases.rank)
        row = communication_row(
            phases.rank,
            "" if member is None else member.host,
            reductions.get(phases.rank) or {},
            waited,
            phases.steps,
            # On a device a collective that blocks the host may still overlap.
            all_block=member is not None
            and bool(member.info.get("left"))
            and member.info.get("beside_computing") is False
            and phases.rank not in analysis.on_device,
        )
        rows += [] if row is None else [row]
    return tuple(rows)


def time_label(phases: PhaseTotals, *, several: bool) -> str:
    """What stands for a device in rows of time; ``several``: the run has several ranks."""
    threads = f"{phases.threads} {SUMMED_THREADS}" if phases.threads > 1 else ""
    if several:
        return f"rank{phases.rank}" + (f" ({threads})" if threads else "")
    return threads or "host"


def time_rows(
    shown: Sequence[PhaseTotals], run: tuple[int, int], *, several: bool
) -> list[PhaseRow]:
    """Rows of a run without a meter, or of several ranks that share theirs: time, no joules."""
    rows = []
    for phases in shown:
        label = time_label(phases, several=several)
        for code, seconds in phases.seconds.items():
            rows.append(_time_row(phases.name(code), label, phases.counts.get(code, 0), seconds))
        of_first_s = sum(phases.seconds.values()) - phases.beside_s
        rest = max(0.0, (run[1] - run[0]) / 1e9 - of_first_s)
        rows.append(_time_row(str(Phase.UNATTRIBUTED), label, 1, rest))
    return rows


def _time_row(phase: str, label: str, count: int, seconds: float) -> PhaseRow:
    return row(
        phase, label, count, seconds, None, None, Status.NOT_IDENTIFIABLE, Provenance.MEASURED
    )
