"""From a run directory to the report's JSON (schema 1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...analysis import device_energy
from ...analysis.base import RunAnalysis
from ...analysis.carbon_and_price import Tariffs
from ...analysis.open import open_analysis
from ...analysis.phase_rows import PhaseRows
from ...analysis.rates import rates
from ...analysis.totals import totals
from ...clock import Anchor
from ...errors import UsageError
from ...model import SCHEMA_VERSION, DeviceKind, Gap, Provenance, RunStatus
from ...store.reader import RunReader
from ...store.trainings import nothing_trained
from ...units import NS_PER_S
from .attempts import attempts
from .join_hosts import joined
from .rank_rows import communication_rows, rank_rows, time_rows, waiting_of_ranks
from .warnings import uncovered, warnings


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

    def report_of(host: RunReader, part_s: tuple[float, float] | None) -> dict[str, Any]:
        return _of_host(
            open_analysis(host, recompute=recompute, part_s=part_s),
            tariffs,
            with_rates=with_rates,
            several=several,
        )

    if len(hosts) == 1:
        report = report_of(hosts[0], part_s)
    else:
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
                reports[str(host.node)] = report_of(host, part)
        if not reports:
            raise UsageError(f"{part_s} s is no part of the run")
        report = joined(reports, reader.clocks, begins_s)
    return report | {"balance": waiting_of_ranks(reader, report) if part_s is None else None}


def of_training(
    analysis: RunAnalysis, tariffs: Tariffs, *, with_rates: bool = True
) -> dict[str, Any]:
    """The report of one training of a group."""
    reader = analysis.reader
    several = len(reader.ranks()) > 1
    report = _of_host(analysis, tariffs, with_rates=with_rates, several=several)
    whole = analysis.run == analysis.whole
    return report | {"balance": waiting_of_ranks(reader, report) if whole else None}


def of_group(analysis: RunAnalysis, tariffs: Tariffs) -> dict[str, Any]:
    """What the meters of a group say of all of it, as the report of a run without phases."""
    return _of_host(analysis, tariffs, with_rates=False, several=False)


def _of_host(
    analysis: RunAnalysis, tariffs: Tariffs, *, with_rates: bool, several: bool
) -> dict[str, Any]:
    """What one host recorded; ``several``: the job has more than one rank."""
    run, gaps = analysis.run, analysis.gaps
    meta = analysis.reader.meta
    devices = analysis.devices
    sources = [
        device_energy.source_row(device, run, gaps)
        | ({"shared": True} if device.source.id in analysis.shared else {})
        for device in devices
    ]
    rows = PhaseRows()
    shown: set[int] = set()
    owned: dict[int, list[str]] = {}
    for device in devices:
        if device.source.id in analysis.shared:
            continue
        if device.source.in_total or _modelled_cpu(device):
            more, owner_totals = analysis.rows_of(device)
            rows += more
            meter = next(row for row in sources if row["source"] == device.source.id)
            meter |= more.sensor
            meter["note"] = "; ".join(filter(None, (meter["note"], more.sensor_note)))
            if owner_totals is not None and more.phases:
                shown.add(owner_totals.rank)
                owned.setdefault(owner_totals.rank, []).append(device.name)
    note = _note(analysis.reader)
    total_, carbon, cost = totals(analysis, tariffs, rows.sampling_error_j)
    phase_totals = analysis.phase_totals
    rows.phases += time_rows([t for t in phase_totals if t.rank not in shown], run, several=several)
    return {
        "schema": SCHEMA_VERSION,
        "run": _run(analysis),
        "total": total_,
        "sources": sources,
        "phases": rows.phases,
        "groups": rows.groups,
        "ranks": rank_rows(phase_totals, owned, sources, analysis) if several else [],
        "communication": communication_rows(analysis) if several else [],
        "hosts": [],
        "attempts": attempts(analysis, str(meta.get("host", ""))),
        "rates": rates(analysis) if with_rates else [],
        "power": [
            row
            for device in devices
            if device.source.in_total or device.source.provenance is Provenance.MODELLED
            if device.source.id not in analysis.shared
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
        "warnings": [
            *([note] if note else ()),
            *warnings(analysis),
            *rows.warnings,
            *uncovered(analysis, tariffs),
        ],
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
        **_steps(analysis),
        "config": meta.get("config"),
        "data": meta.get("data", "unknown"),
        "directory": str(reader.path),
        **({"note": note} if (note := _note(reader)) else {}),
    } | _of_group(reader)


def _of_group(reader: RunReader) -> dict[str, Any]:
    """Of one training of a group: which group, and how its process was started."""
    if reader.training is None:
        return {}
    command = reader.meta.get("command") or []
    return {"group": reader.store.name, "command": command, "process": reader.meta.get("process")}


def _steps(analysis: RunAnalysis) -> dict[str, Any]:
    """Steps, their median time in seconds and its quartiles, of the rank with most of them."""
    ranks = analysis.phase_totals
    most = max(ranks, key=lambda totals: totals.steps, default=None)
    steps = 0 if most is None else most.steps
    times = None if most is None else most.step_times
    optimizers = {} if most is None else dict(most.optimizers)
    told_apart = any(number != steps for number in optimizers.values())
    return {
        "steps": steps,
        "step_s": None if times is None else times.median_s,
        "step_s_quartiles": None if times is None else [times.low_s, times.high_s],
        "steps_left_out": 0 if times is None else times.left_out,
        "iterations": max(optimizers.values()) if told_apart else steps,
        "optimizers": optimizers if told_apart else {},
    }


def _note(reader: RunReader) -> str:
    """What stands first in the report of a command in which nothing trained; else empty."""
    if reader.status is RunStatus.RUNNING or reader.training is not None:
        return ""
    return nothing_trained(reader.path)


def _modelled_cpu(device: device_energy.DeviceEnergy) -> bool:
    source = device.source
    return source.provenance is Provenance.MODELLED and source.device_kind is DeviceKind.CPU


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
