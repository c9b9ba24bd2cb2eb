"""What a job of several ranks adds to a report: its ranks, hosts and attempts, as tables."""

from __future__ import annotations

from .model import AttemptRow, ClockRow, CommunicationRow, PipelineWaiting, Report, WaitingRow
from .numbers import duration, energy, number, share
from .sentences import short
from .text_tables import Table, unique

_MANY = 32  # ranks; of more, the table shows as many
_LONGEST = 60  # of why something ended


def lines(report: Report) -> list[str]:
    """A job of many ranks in a few sentences."""
    said = []
    steps = sorted({row.steps for row in report.ranks})
    if len(steps) > 1:
        said.append(f"ranks took from {steps[0]} to {steps[-1]} steps")
    cells = [row for row in report.communication if row.exposed_s is not None]
    if cells:
        exposed_s = sorted(row.exposed_s or 0.0 for row in cells)
        said.append(
            f"communication: {duration(exposed_s[0])} to {duration(exposed_s[-1])} per step at "
            "least in which a rank waits for its gradients"
        )
    balance = report.balance
    if balance is not None:
        most = max(balance.ranks, key=_waiting)
        said.append(
            "no rank is the slowest"
            if balance.slowest is None
            else f"rank {balance.slowest} is the slowest: others wait up to "
            f"{duration(most.waiting_s)} for it, {share(most.waiting_s / balance.step_s)} of a step"
        )
    if report.pipeline is not None:
        said.append(_pipeline_sentence(report.pipeline))
    said += [
        f"{host.host} {host.status}{f': {short(host.ended_by, _LONGEST)}' if host.ended_by else ''}"
        for host in report.hosts
        if host.status != "finished"
    ]
    if len(report.attempts) > 1:
        said.append(f"{len(report.attempts)} attempts: --devices shows them")
    return said


def tables(report: Report) -> list[Table]:
    """Those that say something; none for a run of one process on one host."""
    shown = [
        _ranks(report),
        _communication(report),
        _balance(report),
        _pipeline(report),
        _hosts(report),
        _attempts(report),
    ]
    return [table for table in shown if table.rows]


def _ranks(report: Report) -> Table:
    rows = report.ranks
    hosts = len({row.host for row in rows}) > 1
    table = [
        [
            f"rank{row.rank}",
            *([row.host] if hosts else []),
            str(row.steps),
            ", ".join(row.devices) or "—",
            energy(row.energy_j) if row.energy_j is not None else "shared or not metered",
        ]
        for row in rows[:_MANY]
    ]
    head = ["rank", *(["host"] if hosts else []), "steps", "devices of its own", "energy"]
    title = "ranks" if len(rows) <= _MANY else f"the first {_MANY} of {len(rows)} ranks"
    return Table(title, head, table, frozenset({0, *([1] if hosts else []), len(head) - 2}))


def _communication(report: Report) -> Table:
    """Three numbers that are never merged, per step that reduces gradients."""
    rows = [
        [
            f"rank{row.rank}",
            *(
                duration(seconds) if seconds is not None else "—"
                for seconds in (row.blocking_s, row.busy_s, row.exposed_s)
            ),
            _cost(row),
        ]
        for row in report.communication[:_MANY]
    ]
    head = ["rank", "blocking", "busy", "exposed at least", "exposed + contention"]
    methods = "; ".join(unique(row.method for row in report.communication))
    return Table(f"communication, per step, from {methods}", head, rows)


def _balance(report: Report) -> Table:
    """Who waits for whom."""
    balance = report.balance
    if balance is None:
        return Table("", [], [])
    rows = [
        [
            f"rank{row.rank}",
            duration(row.waiting_s),
            share(row.waiting_s / balance.step_s),
            f"{100 * row.last_share:.0f} %",
            energy(row.waiting_j) if row.waiting_j is not None else "—",
        ]
        for row in balance.ranks[:_MANY]
    ]
    slowest = balance.slowest
    who = "no rank is the slowest" if slowest is None else f"rank {slowest} is the slowest"
    return Table(
        f"waiting for other ranks, per step ({who})",
        ["rank", "waits", "of a step", "comes last in", "energy, at its mean power"],
        rows,
    )


def _pipeline(report: Report) -> Table:
    """What the waits for neighbours are."""
    pipeline = report.pipeline
    if pipeline is None:
        return Table("", [], [])
    title = "waiting for neighbours in the pipeline"
    if not pipeline.ranks:
        return Table(title, ["bubble and transfer"], [[pipeline.method]], frozenset({0}))
    rows = [
        [
            f"rank{row.rank}",
            *(
                cell
                for seconds in (row.waiting_s, row.bubble_s, row.transfer_s)
                for cell in (duration(seconds), share(seconds / row.step_s))
            ),
        ]
        for row in pipeline.ranks[:_MANY]
    ]
    return Table(
        f"{title}, per step, from {pipeline.method}",
        ["rank", "waits", "of a step", "bubble", "of a step", "transfer", "of a step"],
        rows,
    )


def _pipeline_sentence(pipeline: PipelineWaiting) -> str:
    """The mean over ranks, or why there is none."""
    rows = pipeline.ranks
    if not rows:
        return f"bubble and transfer of the pipeline are {pipeline.method}"
    step_s = sum(row.step_s for row in rows)
    bubble_s, transfer_s = sum(row.bubble_s for row in rows), sum(row.transfer_s for row in rows)
    return (
        f"pipeline, per step of a rank: bubble {duration(bubble_s / len(rows))} "
        f"({share(bubble_s / step_s)}), transfer {duration(transfer_s / len(rows))} "
        f"({share(transfer_s / step_s)})"
    )


def _waiting(row: WaitingRow) -> float:
    return row.waiting_s


def _cost(row: CommunicationRow) -> str:
    if row.cost_s is None or row.cost_s_interval is None:
        return "—"
    low, high = row.cost_s_interval
    return f"{number(1e3 * row.cost_s, 5e2 * (high - low))} ± {number(5e2 * (high - low))} ms"


def _hosts(report: Report) -> Table:
    rows = [
        [
            row.host,
            row.status + (f" ({short(row.ended_by, _LONGEST)})" if row.ended_by else ""),
            ", ".join(map(str, row.ranks)),
            duration(row.duration_s),
            energy(row.energy_j) if row.energy_j is not None else "no meter",
            clock(row.clock),
        ]
        for row in report.hosts
    ]
    return Table(
        "hosts",
        ["host", "status", "ranks", "for", "energy", "its clock"],
        rows,
        frozenset({0, 1, 5}),
    )


def clock(offset: ClockRow) -> str:
    """How a host's clock lies to the job's."""
    if offset.bound_s == 0:
        return offset.method
    if offset.bound_s is None:
        return f"not compared ({offset.method})"
    ahead = -offset.offset_s
    return f"{'+' if ahead >= 0 else '−'}{abs(ahead):.6f} s ± {number(1e6 * offset.bound_s)} µs"


def _attempts(report: Report) -> Table:
    rows = [
        [
            str(row.attempt),
            row.host,
            f"{row.begin_s:.1f} s … {row.end_s:.1f} s",
            str(row.steps),
            energy(row.energy_j),
            _lost(row),
            short(row.ended_by or "", _LONGEST),
        ]
        for row in report.attempts
    ]
    return Table(
        "attempts",
        ["attempt", "host", "when", "steps", "energy", "lost", "ended by"],
        rows,
        frozenset({0, 1, 6}),
        optional=(1, 3),
    )


def _lost(row: AttemptRow) -> str:
    """What came after the last saved state was computed for nothing."""
    if row.lost_s is None:
        return ""
    if row.lost_j is None:
        return duration(row.lost_s)
    return f"{energy(row.lost_j)} in {duration(row.lost_s)}"
