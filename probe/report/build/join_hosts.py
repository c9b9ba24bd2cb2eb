"""One report of a job that ran on several hosts, from a report of each of them.

Every host is accounted for in its own time and by its own meters; what is joined is finished:
joules are added, devices are named after their hosts, and nothing is counted twice, because no
meter is on two hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from ...analysis.from_summary import added
from ...model import RunStatus
from ...store.clocks import ClockOffset
from ...store.loaded_samples import COUNTS
from ...store.reader import SEVERITY
from ..model import ClockRow, GapCounts, HostRow, LoggedValue, Report, RunInfo, Totals


class _OfDevice(Protocol):
    @property
    def device(self) -> str: ...


_Row = TypeVar("_Row", bound=_OfDevice)


def joined(
    reports: Mapping[str, Report], clocks: Mapping[str, ClockOffset], begins_s: Mapping[str, float]
) -> Report:
    """The job's report.

    Args:
        reports: by host, that of rank 0 first.
        clocks: of the others.
        begins_s: when each host began, in seconds since the job's begin.
    """
    several = [_named(name, report, begins_s[name]) for name, report in reports.items()]
    return replace(
        several[0],
        run=_run(reports, begins_s),
        total=_total([report.total for report in several]),
        hosts=tuple(
            _host(name, report, clocks.get(name), begins_s[name])
            for name, report in reports.items()
        ),
        sources=_all(report.sources for report in several),
        nodes=_all(report.nodes for report in several),
        phases=_all(report.phases for report in several),
        groups=_all(report.groups for report in several),
        rates=_all(report.rates for report in several),
        memory=_all(report.memory for report in several),
        memory_growth=_all(report.memory_growth for report in several),
        power=_all(report.power for report in several),
        ranks=_all(report.ranks for report in several),
        communication=_all(report.communication for report in several),
        attempts=_all(report.attempts for report in several),
        absent=_all(report.absent for report in several),
        gaps=GapCounts(
            count=sum(report.gaps.count for report in several),
            edges_lost=sum(report.gaps.edges_lost for report in several),
        ),
        values=_values(several),
        warnings=tuple(_warnings(reports, clocks)),
        final=all(report.final for report in several),
    )


_Item = TypeVar("_Item")


def _all(rows: Iterable[tuple[_Item, ...]]) -> tuple[_Item, ...]:
    return tuple(row for of_host in rows for row in of_host)


def _named(host: str, report: Report, begin_s: float) -> Report:
    """Devices are called after their host, and times begin with the job."""

    def named(rows: Sequence[_Row], rename: Callable[[_Row, str], _Row]) -> tuple[_Row, ...]:
        return tuple(
            row if row.device.startswith("rank") else rename(row, f"{host}/{row.device}")
            for row in rows  # those of a rank's time stay the rank's
        )

    return replace(
        report,
        sources=named(report.sources, lambda row, name: replace(row, device=name)),
        nodes=named(report.nodes, lambda row, name: replace(row, device=name)),
        phases=named(report.phases, lambda row, name: replace(row, device=name)),
        groups=named(report.groups, lambda row, name: replace(row, device=name)),
        rates=named(report.rates, lambda row, name: replace(row, device=name)),
        memory=named(report.memory, lambda row, name: replace(row, device=name)),
        memory_growth=named(report.memory_growth, lambda row, name: replace(row, device=name)),
        power=tuple(
            replace(row, device=f"{host}/{row.device}", begin_s=row.begin_s + begin_s)
            for row in report.power
        ),
        attempts=tuple(
            replace(row, begin_s=row.begin_s + begin_s, end_s=row.end_s + begin_s)
            for row in report.attempts
        ),
        ranks=tuple(
            replace(row, devices=tuple(f"{host}/{device}" for device in row.devices))
            for row in report.ranks
        ),
    )


def _run(reports: Mapping[str, Report], begins_s: Mapping[str, float]) -> RunInfo:
    runs = {name: report.run for name, report in reports.items()}
    first = next(iter(runs.values()))
    status = max(
        (run.status for run in runs.values()),
        key=lambda host_run: SEVERITY.index(RunStatus(host_run)),
    )
    end_s = max(begins_s[name] + run.duration_s for name, run in runs.items())
    started = min(datetime.fromisoformat(run.started) for run in runs.values())
    reasons = [f"{name}: {why}" for name, run in runs.items() if (why := _ended_by(run))]
    codes = [run.exit_code for run in runs.values() if run.exit_code]
    return replace(
        first,
        status=status,
        ended_by="; ".join(reasons),
        duration_s=end_s,
        exit_code=codes[0] if codes else first.exit_code,
        started=started.isoformat(),
        ended=(started + timedelta(seconds=end_s)).isoformat(),
        ranks=len({row.rank for report in reports.values() for row in report.ranks}) or 1,
        steps=max(run.steps for run in runs.values()),
    )


def _ended_by(run: RunInfo) -> str:
    silent = run.status in (RunStatus.LOST, RunStatus.KILLED) and not run.ended_by
    return "nothing was heard of it any more" if silent else run.ended_by


def _total(totals: Sequence[Totals]) -> Totals:
    intervals = [total.energy_j_interval for total in totals if total.energy_j_interval]
    return Totals(
        energy_j=_sum(total.energy_j for total in totals),
        energy_j_interval=(sum(low for low, _ in intervals), sum(high for _, high in intervals))
        if intervals
        else None,
        co2e_g=_sum(total.co2e_g for total in totals),
        modelled_energy_j=_sum(total.modelled_energy_j for total in totals),
        modelled_co2e_g=_sum(total.modelled_co2e_g for total in totals),
        coverage=min(
            (total.coverage for total in totals if total.coverage is not None), default=None
        ),
        cost=_sum(total.cost for total in totals),
        modelled_cost=_sum(total.modelled_cost for total in totals),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """Of what is known; None if nothing is."""
    stated = [value for value in values if value is not None]
    return sum(stated) if stated else None


def _host(name: str, report: Report, clock: ClockOffset | None, begin_s: float) -> HostRow:
    clock = clock or ClockOffset(0, 0, "the job's own")
    return HostRow(
        host=name,
        status=report.run.status,
        ended_by=_ended_by(report.run),
        ranks=tuple(row.rank for row in report.ranks),
        begin_s=begin_s,
        duration_s=report.run.duration_s,
        energy_j=report.total.energy_j,
        modelled_energy_j=report.total.modelled_energy_j,
        clock=ClockRow(
            offset_s=clock.offset_ns / 1e9,
            method=clock.method,
            bound_s=None if clock.bound_ns is None else clock.bound_ns / 1e9,
        ),
    )


def _values(reports: Sequence[Report]) -> dict[str, LoggedValue]:
    """Counts of all hosts are added; of the rest the first host's stand."""
    summed: dict[str, LoggedValue] = {}
    for report in reports:
        for name, value in report.values.items():
            if name not in summed:
                summed[name] = value
            elif name in COUNTS:
                summed[name] = added(summed[name], value)
    return summed


def _warnings(reports: Mapping[str, Report], clocks: Mapping[str, ClockOffset]) -> list[str]:
    lines: dict[str, list[str]] = {}
    for name, report in reports.items():
        for line in report.warnings:
            lines.setdefault(line, []).append(name)
    joined = [
        line if len(names) == len(reports) else f"{', '.join(names)}: {line}"
        for line, names in lines.items()
    ]
    unknown = [name for name, clock in clocks.items() if clock.bound_ns is None]
    if unknown:
        joined.append(
            f"the clock of {', '.join(unknown)} was not measured against the job's: where "
            "its phases lie beside those of other hosts is only as good as NTP"
        )
    return joined
