"""From a run directory to the report's JSON (schema 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...analysis import device_energy
from ...analysis.base import RunAnalysis
from ...analysis.carbon_and_price import Tariffs
from ...analysis.open import open_analysis
from ...analysis.phase_rows import PhaseRows, row
from ...analysis.rates import rates
from ...analysis.totals import totals
from ...clock import Anchor
from ...errors import UsageError
from ...model import SCHEMA_VERSION, Gap, Phase, Provenance, RunStatus, Status
from ...store.reader import RunReader
from ...timeline.ddp_reductions import row as communication_row
from ...timeline.phase_totals import PhaseTotals
from ...timeline.rank_waiting import balance
from ...units import NS_PER_S
from .attempts import attempts
from .join_hosts import joined


def build(
    path: Path,
    *,
    recompute: bool = False,
    part_s: tuple[float, float] | None = None,
    tariffs: Tariffs | None = None,
    with_rates: bool = True,
) -> dict[str, Any]:
    """Read a run and attribute its energy.

    Args:
        recompute: go back to raw spans and samples, whatever the recorder has gathered.
        part_s: only what lies between these seconds of the run.
        tariffs: what a kWh emits and costs; None: as the environment says.
        with_rates: also how busy each phase kept the devices, which takes as long as all else.

    Raises:
        UsageError: that is no part of the run.
        StoreError, StoreVersionError: it cannot be read.
    """
    tariffs = Tariffs.given() if tariffs is None else tariffs
    reader = RunReader(path)
    hosts = reader.hosts()
    several = len(reader.ranks()) > 1

    def told(host: RunReader, part_s: tuple[float, float] | None) -> dict[str, Any]:
        return _of_host(
            open_analysis(host, recompute=recompute, part_s=part_s),
            tariffs,
            with_rates=with_rates,
            several=several,
        )

    if len(hosts) == 1:
        report = told(hosts[0], part_s)
        return report | {"balance": _balance(reader, report) if part_s is None else None}
    begins_s = {str(host.node): reader.since_begin_s(host) for host in hosts}
    reports = {}
    for host in hosts:
        begin_s, length_s = begins_s[str(host.node)], (host.end_ns() - host.begin_ns) / NS_PER_S
        part = (
            None
            if part_s is None
            else (max(0.0, part_s[0] - begin_s), min(part_s[1] - begin_s, length_s))
        )
        if part is None or part[0] < part[1]:
            reports[str(host.node)] = told(host, part)
    if not reports:
        raise UsageError(f"{part_s} s is no part of the run")
    report = joined(reports, reader.clocks, begins_s)
    return report | {"balance": _balance(reader, report) if part_s is None else None}


def _of_host(
    analysis: RunAnalysis, tariffs: Tariffs, *, with_rates: bool, several: bool
) -> dict[str, Any]:
    """What one host recorded; ``several``: the job has more than one rank."""
    run, gaps = analysis.run, analysis.gaps
    meta = analysis.reader.meta
    devices = analysis.devices
    sources = [device_energy.source_row(device, run, gaps) for device in devices]
    rows = PhaseRows()
    shown: set[int] = set()
    owned: dict[int, list[str]] = {}
    for device in devices:
        if device.source.in_total or _modelled_cpu(device):
            more, owner_totals = analysis.rows_of(device)
            rows += more
            if owner_totals is not None and more.phases:
                shown.add(owner_totals.rank)
                owned.setdefault(owner_totals.rank, []).append(device.name)
    total_, carbon, cost = totals(analysis, tariffs)
    phase_totals = analysis.phase_totals
    rows.phases += _time_only(
        [t for t in phase_totals if t.rank not in shown], run, several=several
    )
    return {
        "schema": SCHEMA_VERSION,
        "run": _run(analysis),
        "total": total_,
        "sources": sources,
        "phases": rows.phases,
        "groups": rows.groups,
        "ranks": _ranks(phase_totals, owned, sources, analysis) if several else [],
        "communication": _communication(analysis) if several else [],
        "hosts": [],
        "attempts": attempts(analysis, str(meta.get("host", ""))),
        "rates": rates(analysis) if with_rates else [],
        "power": [
            row
            for device in devices
            if _shown_over_time(device)
            if (row := device_energy.power_row(device, run)) is not None
        ],
        "overhead": _overhead(meta),
        "recorder": meta.get("recorder"),
        "machine": meta.get("machine") or {},
        "torch": meta.get("torch", "unknown"),
        "carbon": carbon,
        "cost": cost,
        "absent": meta.get("absent") or [],
        "gaps": {"count": sum(g.count for g in gaps), "edges_lost": _edges_lost(meta, gaps)},
        "values": analysis.values(),
        "warnings": [*_warnings(analysis), *rows.warnings, *_uncovered(analysis, tariffs)],
    }


def _run(analysis: RunAnalysis) -> dict[str, Any]:
    reader, run = analysis.reader, analysis.run
    meta = reader.meta
    part = [(at - analysis.whole[0]) / NS_PER_S for at in run]
    anchor = Anchor(**meta["anchor"])
    return {
        "id": reader.id,
        "name": meta.get("name") or "",
        "status": str(reader.status),
        "ended_by": meta.get("ended_by") or "",
        "exit_code": meta.get("exit_code"),
        "started": meta["started"],
        "ended": (anchor.wall_of(run[0]) + timedelta(seconds=(run[1] - run[0]) / 1e9)).isoformat(),
        "duration_s": (run[1] - run[0]) / 1e9,
        "part_s": part if run != analysis.whole else None,
        "host": meta.get("host", ""),
        "python": meta.get("python", ""),
        "ranks": max(1, len(reader.ranks())),
        "steps": max((t.steps for t in analysis.phase_totals), default=0),
        "config": meta.get("config"),
        "data": meta.get("data", "unknown"),
        "directory": str(reader.path),
    }


def _ranks(
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


def _balance(reader: RunReader, report: dict[str, Any]) -> dict[str, Any] | None:
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


def _communication(analysis: RunAnalysis) -> list[dict[str, Any]]:
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


def _time_only(
    shown: Sequence[PhaseTotals], run: tuple[int, int], *, several: bool
) -> list[dict[str, Any]]:
    """Rows of a run without a meter, or of several ranks that share theirs: time, no joules."""
    rows = []
    for totals in shown:
        label = f"rank{totals.rank}" if several else "host"
        for code, seconds in totals.seconds.items():
            rows.append(_time_row(totals.name(code), label, totals.counts.get(code, 0), seconds))
        rest = max(0.0, (run[1] - run[0]) / 1e9 - sum(totals.seconds.values()))
        rows.append(_time_row(str(Phase.UNATTRIBUTED), label, 1, rest))
    return rows


def _time_row(phase: str, label: str, count: int, seconds: float) -> dict[str, Any]:
    return row(
        phase, label, count, seconds, None, None, Status.NOT_IDENTIFIABLE, Provenance.MEASURED
    )


def _shown_over_time(device: device_energy.DeviceEnergy) -> bool:
    source = device.source
    return source.in_total or source.provenance is Provenance.MODELLED


def _modelled_cpu(device: device_energy.DeviceEnergy) -> bool:
    source = device.source
    return source.provenance is Provenance.MODELLED and source.device.startswith("cpu")


def _overhead(meta: dict[str, Any]) -> dict[str, Any]:
    measured = meta.get("overhead") or {}
    return {
        "share_of_step": measured.get("share_of_step"),
        "method": measured.get("method") or "unknown: no step was recorded",
        **{k: v for k, v in measured.items() if k not in ("share_of_step", "method")},
    }


def _edges_lost(meta: dict[str, Any], gaps: Sequence[Gap]) -> int:
    counted = int(meta.get("edges_lost") or 0)
    return max(counted, sum(int(g.count) for g in gaps if g.what.startswith("edges of")))


def _uncovered(analysis: RunAnalysis, tariffs: Tariffs) -> list[str]:
    anchor = Anchor(**analysis.reader.meta["anchor"])
    silent = [
        f"{tariff.label} says nothing of this run's time: no {what} is reckoned from it"
        for what, tariff in (("CO2e", tariffs.intensity), ("cost", tariffs.price))
        if tariff is not None and not tariff.covers(analysis.run, anchor)
    ]
    return [*tariffs.problems, *silent]


def _warnings(analysis: RunAnalysis) -> list[str]:
    reader, devices, phase_totals = analysis.reader, analysis.devices, analysis.phase_totals
    meta = reader.meta
    lines = list(meta.get("warnings") or [])
    if not any(d.source.in_total for d in devices):
        lines.append(
            "no energy meter was found, so there is no measured energy: `probe doctor` says why"
        )
    for device in devices:
        source = device.source
        if not source.attributable:
            lines.append(f"{source.device}: {source.note or 'shared'}; no energy is attributed")
        elif device.curve is None and source.in_total:
            lines.append(f"{source.device}: the run was too short for its meter to move twice")
        elif device.curve is not None and device.curve.resets:
            lines.append(
                f"{source.device}: its counter started anew {device.curve.resets} times; "
                "energy across that moment is not counted"
            )
    if any(t.inferred_forward for t in phase_totals):
        lines.append(
            "forward was inferred (no hook saw it): pass the model to watch(model) for exact edges"
        )
    for device in devices:
        source = device.source
        if (
            len(phase_totals) > 1
            and source.in_total
            and device.curve is not None
            and (analysis.owner_of(source) is None)
        ):
            lines.append(f"{source.device}: several ranks share it, so its energy is unattributed")
    if phase_totals and not analysis.on_device and any(d.name.startswith("gpu") for d in devices):
        lines.append(
            "no device times were recorded: GPU energy is split on the host's phases, "
            "which run ahead of the device"
        )
    lost = sum(g.count for g in analysis.gaps if g.what.startswith("edges of"))
    if lost:
        lines.append(
            f"{lost} edges found the ring full and are missing; their time is unattributed"
        )
    for gap in analysis.gaps:
        if gap.what == "recorder":
            seconds = (gap.end_ns - gap.begin_ns) / 1e9
            lines.append(f"the recorder was restarted: no samples for {seconds:.1f} s")
    if meta.get("carbon_problem"):
        lines.append(str(meta["carbon_problem"]))
    if reader.status is RunStatus.RUNNING:
        lines.append("the run is still going on: numbers are those of this moment")
    return list(dict.fromkeys(lines))
