"""From a run directory to the report's JSON (schema 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...analysis import device_energy
from ...analysis.base import RunAnalysis
from ...analysis.carbon_and_price import Tariffs
from ...analysis.memory import growth_rows, memory_rows
from ...analysis.node_energy import contradiction, node_row
from ...analysis.open import open_analysis
from ...analysis.phase_rows import PhaseRows
from ...analysis.rates import rates
from ...analysis.totals import totals
from ...clock import Anchor
from ...errors import UsageError
from ...model import DeviceKind, Gap, Provenance, RunStatus
from ...store.reader import RunReader
from ...store.run_fields import scheduler_of
from ...store.trainings import nothing_trained
from ...timeline.pipeline_waiting import pipeline_waiting
from ...timeline.rank_waiting import main_rings
from ...units import NS_PER_S
from ..model import AbsentMeter, GapCounts, Overhead, RecorderUse, Report, RunInfo, SourceRow
from .attempts import attempts
from .empty import NO_OVERHEAD
from .join_hosts import joined
from .phase_shares import with_shares
from .phase_usage import leaks, with_activity, with_memory
from .rank_rows import communication_rows, rank_rows, time_label, time_rows, waiting_of_ranks
from .warnings import uncovered, warnings


def build(
    path: Path,
    *,
    recompute: bool = False,
    part_s: tuple[float, float] | None = None,
    tariffs: Tariffs | None = None,
    with_rates: bool = True,
) -> Report:
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

    def report_of(host: RunReader, part_s: tuple[float, float] | None) -> Report:
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
    return report if part_s is not None else _with_waiting(reader, report)


def _with_waiting(reader: RunReader, report: Report) -> Report:
    if not report.ranks:
        return report
    rings = main_rings(reader)
    return replace(
        report,
        balance=waiting_of_ranks(reader, report, rings),
        pipeline=pipeline_waiting(reader, rings),
    )


def of_training(analysis: RunAnalysis, tariffs: Tariffs, *, with_rates: bool = True) -> Report:
    """The report of one training of a group."""
    reader = analysis.reader
    several = len(reader.ranks()) > 1
    report = _of_host(analysis, tariffs, with_rates=with_rates, several=several)
    return _with_waiting(reader, report) if analysis.run == analysis.whole else report


def of_group(analysis: RunAnalysis, tariffs: Tariffs) -> Report:
    """What the meters of a group say of all of it, as the report of a run without phases."""
    return _of_host(analysis, tariffs, with_rates=False, several=False)


def _of_host(analysis: RunAnalysis, tariffs: Tariffs, *, with_rates: bool, several: bool) -> Report:
    """What one host recorded; ``several``: the job has more than one rank."""
    run, gaps = analysis.run, analysis.gaps
    meta = analysis.reader.meta
    devices = analysis.devices
    sources = [
        device_energy.source_row(device, run, gaps, shared=device.source.id in analysis.shared)
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
            sources = [
                _with_response(row, more) if row.source == device.source.id else row
                for row in sources
            ]
            if owner_totals is not None and more.phases:
                shown.add(owner_totals.rank)
                owned.setdefault(owner_totals.rank, []).append(device.name)
    rank_of = {device: rank for rank, devices in owned.items() for device in devices}
    levels = analysis.memory()
    busy = tuple(rates(analysis)) if with_rates else ()
    memory = tuple(memory_rows(levels, analysis.phase_totals))
    growth = tuple(growth_rows(levels))
    note = _note(analysis.reader)
    total, carbon, cost = totals(analysis, tariffs, rows.sampling_error_j)
    node = node_row(analysis, total)
    phase_totals = analysis.phase_totals
    timed = [t for t in phase_totals if t.rank not in shown]
    rows.phases += time_rows(timed, run, several=several)
    rank_of |= {time_label(t, several=several): t.rank for t in timed}
    return Report(
        run=_run(analysis),
        total=total,
        sources=tuple(sources),
        nodes=() if node is None else (node,),
        phases=with_shares(with_activity(with_memory(rows.phases, memory, rank_of), busy, rank_of)),
        groups=tuple(rows.groups),
        ranks=rank_rows(phase_totals, owned, sources, analysis) if several else (),
        communication=communication_rows(analysis) if several else (),
        attempts=attempts(analysis, str(meta.get("host", ""))),
        rates=busy,
        memory=memory,
        memory_growth=growth,
        power=tuple(
            row
            for device in devices
            if device.source.in_total or device.source.provenance is Provenance.MODELLED
            if device.source.id not in analysis.shared
            if (row := device_energy.power_row(device, run)) is not None
        ),
        overhead=_overhead(meta),
        recorder=_recorder(meta),
        machine=meta.get("machine") or {},
        torch=meta.get("torch", "unknown"),
        carbon=carbon,
        cost=cost,
        absent=tuple(_absent(meta)),
        gaps=GapCounts(count=sum(g.count for g in gaps), edges_lost=_edges_lost(meta, gaps)),
        values=analysis.values(),
        warnings=(
            *([note] if note else ()),
            *warnings(analysis),
            *contradiction(node),
            *rows.warnings,
            *leaks(growth, several=several),
            *uncovered(analysis, tariffs),
        ),
        final=analysis.reader.status is not RunStatus.RUNNING,
    )


def _with_response(source: SourceRow, rows: PhaseRows) -> SourceRow:
    """A meter's row with what the estimator found of its sensor."""
    note = "; ".join(filter(None, (source.note, rows.sensor_note)))
    return replace(source, response=rows.response, fit=rows.fit, note=note)


def _run(analysis: RunAnalysis) -> RunInfo:
    reader, run = analysis.reader, analysis.run
    meta = reader.meta
    begin_s, end_s = ((at - analysis.whole[0]) / NS_PER_S for at in run)
    anchor = Anchor(**meta["anchor"])
    most = max(analysis.phase_totals, key=lambda totals: totals.steps, default=None)
    steps = 0 if most is None else most.steps
    times = None if most is None else most.step_times
    optimizers = {} if most is None else dict(most.optimizers.steps)
    several = any(number != steps for number in optimizers.values())
    grouped = reader.training is not None
    return RunInfo(
        id=reader.id,
        name=meta.get("name") or "",
        status=str(reader.status),
        ended_by=meta.get("ended_by") or "",
        exit_code=meta.get("exit_code"),
        started=meta["started"],
        ended=(anchor.wall_of(run[0]) + timedelta(seconds=(run[1] - run[0]) / 1e9)).isoformat(),
        duration_s=(run[1] - run[0]) / 1e9,
        part_s=(begin_s, end_s) if run != analysis.whole else None,
        host=meta.get("host", ""),
        python=meta.get("python", ""),
        ranks=max(1, len(reader.ranks())),
        steps=steps,
        step_s=None if times is None else times.median_s,
        step_s_quartiles=None if times is None else (times.low_s, times.high_s),
        steps_left_out=0 if times is None else times.left_out,
        iterations=most.optimizers.iterations if several and most is not None else steps,
        optimizers=optimizers if several else {},
        config=meta.get("config"),
        data=meta.get("data", "unknown"),
        directory=str(reader.path),
        note=_note(reader),
        group=reader.store.name if grouped else None,
        command=tuple(meta.get("command") or ()) if grouped else (),
        process=meta.get("process") if grouped else None,
        scheduler=scheduler_of(meta),
        simulated=bool(meta.get("simulated")),
    )


def _note(reader: RunReader) -> str:
    """What stands first in the report of a command in which nothing trained; else empty."""
    if reader.status is RunStatus.RUNNING or reader.training is not None:
        return ""
    return nothing_trained(reader.path)


def _modelled_cpu(device: device_energy.DeviceEnergy) -> bool:
    source = device.source
    return source.provenance is Provenance.MODELLED and source.device_kind is DeviceKind.CPU


def _overhead(meta: Mapping[str, Any]) -> Overhead:
    measured = meta.get("overhead") or {}
    return Overhead(
        share_of_step=measured.get("share_of_step"),
        method=measured.get("method") or NO_OVERHEAD.method,
        records=measured.get("records"),
    )


def _recorder(meta: Mapping[str, Any]) -> RecorderUse | None:
    used = meta.get("recorder")
    if not used:
        return None
    return RecorderUse(
        pid=used.get("pid", 0),
        start_ticks=used.get("start_ticks", 0),
        epoch=used.get("epoch", 0),
        cpu_s=used.get("cpu_s", 0.0),
        wall_s=used.get("wall_s", 0.0),
        start_cpu_s=used.get("start_cpu_s"),
    )


def _absent(meta: Mapping[str, Any]) -> Iterator[AbsentMeter]:
    for row in meta.get("absent") or ():
        yield AbsentMeter(
            sensor=row.get("sensor", ""),
            what=row.get("what", ""),
            reason=row.get("reason", ""),
            remedy=row.get("remedy"),
        )


def _edges_lost(meta: Mapping[str, Any], gaps: Sequence[Gap]) -> int:
    counted = int(meta.get("edges_lost") or 0)
    return max(counted, sum(int(g.count) for g in gaps if g.what.startswith("edges of")))
