"""One report of a job that ran on several hosts, from a report of each of them.

Every host is accounted for in its own time and by its own meters; what is joined is finished:
joules are added, devices are named after their hosts, and nothing is counted twice, because no
meter is on two hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ...analysis.from_summary import added
from ...model import RunStatus
from ...store.clocks import ClockOffset
from ...store.reader import COUNTS, SEVERITY

Report = dict[str, Any]
_LISTS = (
    "sources",
    "phases",
    "groups",
    "rates",
    "power",
    "ranks",
    "communication",
    "attempts",
    "absent",
)
_SUMMED = ("energy_j", "co2e_g", "modelled_energy_j", "modelled_co2e_g", "cost", "modelled_cost")


def joined(
    reports: Mapping[str, Report], clocks: Mapping[str, ClockOffset], begins_s: Mapping[str, float]
) -> Report:
    """The job's report.

    Args:
        reports: by host, that of rank 0 first.
        clocks: of the others.
        begins_s: when each host began, in seconds since the job's begin.
    """
    first = next(iter(reports.values()))
    several = list(reports.values())
    for name, report in reports.items():
        _label(name, report, begins_s[name])
    return first | {
        "run": _run(reports, begins_s),
        "total": _total(several),
        "hosts": [
            _host(name, report, clocks.get(name), begins_s[name])
            for name, report in reports.items()
        ],
        **{key: [row for report in several for row in report[key]] for key in _LISTS},
        "gaps": {key: sum(report["gaps"][key] for report in several) for key in first["gaps"]},
        "values": _values(several),
        "warnings": _warnings(reports, clocks),
    }


def _label(name: str, report: Report, begin_s: float) -> None:
    """Devices are called after their host; rows of a rank's time stay the rank's."""
    for key in ("sources", "phases", "groups", "rates", "power"):
        for row in report[key]:
            if not row["device"].startswith("rank"):
                row["device"] = f"{name}/{row['device']}"
    for row in report["power"]:
        row["begin_s"] += begin_s
    for row in report["attempts"]:
        row["begin_s"] += begin_s
        row["end_s"] += begin_s
    for row in report["ranks"]:
        row["devices"] = [f"{name}/{device}" for device in row["devices"]]


def _run(reports: Mapping[str, Report], begins_s: Mapping[str, float]) -> Report:
    first: Report = next(iter(reports.values()))["run"]
    runs = {name: report["run"] for name, report in reports.items()}
    status = max(
        (run["status"] for run in runs.values()),
        key=lambda host_run: SEVERITY.index(RunStatus(host_run)),
    )
    end_s = max(begins_s[name] + run["duration_s"] for name, run in runs.items())
    started = min(datetime.fromisoformat(run["started"]) for run in runs.values())
    reasons = [f"{name}: {why}" for name, run in runs.items() if (why := _ended_by(run))]
    codes = [run["exit_code"] for run in runs.values() if run["exit_code"]]
    return first | {
        "status": status,
        "ended_by": "; ".join(reasons),
        "duration_s": end_s,
        "exit_code": codes[0] if codes else first["exit_code"],
        "started": started.isoformat(),
        "ended": (started + timedelta(seconds=end_s)).isoformat(),
        "ranks": len({row["rank"] for report in reports.values() for row in report["ranks"]}) or 1,
        "steps": max(run["steps"] for run in runs.values()),
    }


def _ended_by(run: Report) -> str:
    unheard = run["status"] in (RunStatus.LOST, RunStatus.KILLED) and not run["ended_by"]
    return "nothing was heard of it any more" if unheard else str(run["ended_by"])


def _total(reports: Sequence[Report]) -> Report:
    totals: list[Report] = [report["total"] for report in reports]
    joined: Report = {}
    for key in _SUMMED:
        values = [total[key] for total in totals if total[key] is not None]
        joined[key] = sum(values) if values else None
    intervals = [total["energy_j_interval"] for total in totals if total["energy_j_interval"]]
    joined["energy_j_interval"] = [sum(ends) for ends in zip(*intervals, strict=True)] or None
    joined["coverage"] = min(
        (total["coverage"] for total in totals if total["coverage"] is not None), default=None
    )
    return totals[0] | joined


def _host(name: str, report: Report, clock: ClockOffset | None, begin_s: float) -> Report:
    run, total = report["run"], report["total"]
    return {
        "host": name,
        "status": run["status"],
        "ended_by": _ended_by(run),
        "ranks": [row["rank"] for row in report["ranks"]],
        "begin_s": begin_s,
        "duration_s": run["duration_s"],
        "energy_j": total["energy_j"],
        "modelled_energy_j": total["modelled_energy_j"],
        "clock": _clock(clock or ClockOffset(0, 0, "the job's own")),
    }


def _clock(clock: ClockOffset) -> Report:
    bound_ns = clock.bound_ns
    return {
        "offset_s": clock.offset_ns / 1e9,
        "method": clock.method,
        "bound_s": None if bound_ns is None else bound_ns / 1e9,
    }


def _values(reports: Sequence[Report]) -> Report:
    """Counts of all hosts are added; of the rest the first host's stand."""
    summed: Report = {}
    for report in reports:
        for name, value in report["values"].items():
            if name not in summed:
                summed[name] = dict(value)
            elif name in COUNTS:
                summed[name] = added(summed[name], value)
    return summed


def _warnings(reports: Mapping[str, Report], clocks: Mapping[str, ClockOffset]) -> list[str]:
    lines: dict[str, list[str]] = {}
    for name, report in reports.items():
        for line in report["warnings"]:
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
