"""Made-up reports: rows with defaults, so that a test writes down only what it is about."""

from __future__ import annotations

from dataclasses import replace

from probe.model import Provenance, Status
from probe.report.build.phase_shares import with_shares
from probe.report.group_model import GroupInfo, GroupReport, MemberRow, SharedTime, TimeOutside
from probe.report.model import (
    CarbonIntensity,
    EnergyPrice,
    GapCounts,
    Interval,
    LoggedValue,
    Overhead,
    PhaseRow,
    PowerRow,
    RateRow,
    RecorderUse,
    Report,
    RunInfo,
    SourceRow,
    Totals,
)


def phase_row(
    phase: str,
    energy_j: float | None,
    *,
    device: str = "gpu0",
    time_s: float = 2.0,
    count: int = 10,
    interval: Interval | None = None,
    bounds_j: Interval | None = None,
    status: Status = Status.RESOLVED,
    provenance: Provenance = Provenance.ESTIMATED,
) -> PhaseRow:
    """A row of ``phases``; ±10 % unless a model says its joules."""
    modelled = provenance is Provenance.MODELLED
    if energy_j is not None and not modelled and interval is None:
        interval = 0.9 * energy_j, 1.1 * energy_j
    return PhaseRow(
        phase=phase,
        device=device,
        count=count,
        time_s=time_s,
        energy_j=energy_j,
        energy_j_interval=interval,
        power_w=None if energy_j is None else energy_j / time_s,
        status=status,
        bounds_j=bounds_j,
        provenance=provenance,
    )


def rate_row(quantity: str, phase: str, time_s: float, value: float | None) -> RateRow:
    """A row of ``rates`` on gpu0, ±5 points."""
    return RateRow(
        device="gpu0",
        quantity=quantity,
        source=f"nvml:u:{quantity}",
        phase=phase,
        time_s=time_s,
        value=value,
        interval=None if value is None else (value - 0.05, value + 0.05),
        status=Status.RESOLVED,
        provenance=Provenance.ESTIMATED,
    )


def source_row(device: str = "gpu0", energy_j: float | None = 400.0) -> SourceRow:
    """A measured counter."""
    return SourceRow(
        source=f"nvml:{device}:energy",
        device=device,
        uuid=device,
        method="counter",
        provenance=Provenance.MEASURED,
        in_total=True,
        energy_j=energy_j,
        gaps=0,
        period_s=0.1,
        model="M",
    )


def power_row(*watts: float | None) -> PowerRow:
    """Power of gpu0 in seconds."""
    return PowerRow(
        device="gpu0",
        source="s",
        provenance=Provenance.MEASURED,
        begin_s=0.0,
        step_s=1.0,
        power_w=watts,
    )


def report_of_rows(
    *rows: PhaseRow, energy_j: float | None = 1000.0, rates: tuple[RateRow, ...] = ()
) -> Report:
    """A run of 10 s and 10 steps with these phases."""
    return Report(
        run=RunInfo(
            id="20260101-000000-abc",
            name="plain",
            status="finished",
            started="2026-01-01T00:00:00+00:00",
            ended="2026-01-01T00:00:10+00:00",
            duration_s=10.0,
            host="h",
            steps=10,
            data="d",
            directory="/runs/x",
        ),
        total=Totals(
            energy_j=energy_j,
            energy_j_interval=None if energy_j is None else (0.975 * energy_j, 1.025 * energy_j),
        ),
        phases=with_shares(rows),
        rates=rates,
        overhead=Overhead(share_of_step=0.01, method="m"),
    )


def full_report(name: str = "plain") -> Report:
    """Stated, refused, modelled phases, one of them called ``name``; no trouble is left out."""
    report = report_of_rows(
        phase_row("forward", 300.0),
        phase_row(name, 80.0, status=Status.WEAK),
        phase_row("data", None, status=Status.NOT_IDENTIFIABLE, bounds_j=(0.0, 50.0)),
        phase_row("unattributed", 20.0),
        phase_row("forward", 20.0, device="cpu", provenance=Provenance.MODELLED),
    )
    return replace(
        report,
        run=replace(
            report.run, name=name, status="failed", ended_by=f"rank 0 failed: {name}", exit_code=1
        ),
        total=Totals(
            energy_j=400.0,
            energy_j_interval=(390.0, 410.0),
            co2e_g=0.05,
            modelled_energy_j=30.0,
            modelled_co2e_g=0.004,
            coverage=0.99,
        ),
        sources=(source_row(),),
        recorder=RecorderUse(pid=1, start_ticks=1, epoch=1, cpu_s=1.0, wall_s=10.0),
        torch="2",
        carbon=CarbonIntensity(g_per_kwh=475.0, label="world", source="s", country=None),
        values={"loss": LoggedValue(count=10, last=0.5, sum=5.0)},
        warnings=(f"trouble with {name}",),
    )


def without_meter(report: Report) -> Report:
    """The same run on a machine without any meter: no joules, no intensity, nothing logged."""
    return replace(
        report,
        total=Totals(),
        sources=(),
        carbon=None,
        values={},
        phases=(phase_row("forward", None, status=Status.NOT_IDENTIFIABLE),),
    )


def group_report(name: str = "sweep") -> GroupReport:
    """Four trainings: two alone on a GPU, two that shared another; one failed. 2000 J in all."""
    identity = "20260101-000000-abc"
    runs, members = [], []
    for number, joules, shared, status, begin_s in (
        (1, 400.0, False, "finished", 0.5),
        (2, 312.5, False, "failed", 11.0),
        (3, None, True, "finished", 21.0),
        (4, None, True, "finished", 21.5),
    ):
        rows = [
            phase_row("forward", None if joules is None else 0.75 * joules, time_s=6.0),
            phase_row("backward", None if joules is None else 0.25 * joules, time_s=4.0),
        ]
        run = report_of_rows(*rows, energy_j=joules)
        source = replace(source_row(energy_j=joules), shared=shared, in_total=not shared)
        error = f"ValueError: {name}" if status == "failed" else ""
        info = replace(
            run.run,
            id=f"{identity}/{number}",
            name=name,
            group=identity,
            status=status,
            ended_by=error,
            steps=10 * number,
        )
        runs.append(replace(run, run=info, sources=(source,)))
        members.append(
            MemberRow(
                number=number,
                id=info.id,
                name=name,
                process=None,
                command=("python", "train.py", f"--lr={number}"),
                status=status,
                ended_by=error,
                exit_code=int(status == "failed"),
                begin_s=begin_s,
                duration_s=10.0,
                ranks=1,
                steps=10 * number,
                energy_j=joules,
                modelled_energy_j=20.0,
                shared=shared,
            )
        )
    full = full_report()
    group = GroupInfo(
        id=identity,
        name=name,
        status="failed",
        ended_by="exit code 1",
        exit_code=1,
        started="2026-01-01T00:00:00+00:00",
        ended="2026-01-01T00:00:40+00:00",
        duration_s=40.0,
        host="h",
        directory="/runs/x",
        steps=100,
        members=tuple(members),
        total=Totals(
            energy_j=2000.0,
            energy_j_interval=(1950.0, 2050.0),
            co2e_g=0.2,
            modelled_energy_j=90.0,
            coverage=0.99,
            cost=0.001,
        ),
        shared=SharedTime(
            energy_j=987.0, modelled_energy_j=20.0, trainings=(3, 4), duration_s=10.5
        ),
        rest=TimeOutside(energy_j=300.5, modelled_energy_j=10.0, duration_s=9.0),
        sources=(source_row("gpu0", 1500.0), source_row("gpu1", 500.0)),
        overhead=Overhead(share_of_step=0.01, method="m"),
        recorder=full.recorder,
        machine={},
        carbon=full.carbon,
        cost=EnergyPrice(per_kwh=1.8, currency="EUR", label="given"),
        absent=(),
        gaps=GapCounts(),
    )
    return GroupReport(group=group, runs=tuple(runs))
