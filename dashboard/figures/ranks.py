"""Which ranks wait for others, and what communication costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from probe.report.model import RankBalance
from probe.report.numbers import duration, energy
from probe.report.rank_tables import clock

from ..chart_data import Chart, Column, JobView
from .style import BLUE, VERMILION, beside, figure

_MAX_BARS = 64  # bars; the table has all ranks

Cells = list[list[str]]
_Value = TypeVar("_Value")


def waiting(job: JobView) -> Chart:
    """Mean waiting of each rank per step, the slowest marked."""
    columns = [
        Column("rank", "rank"),
        Column("host", "host"),
        Column("waiting_s", "waits per step (s)"),
        Column("share", "of a step (%)"),
        Column("last_share", "comes last in (%)"),
        Column("waiting_j", "energy waiting (J)"),
    ]
    balance = job.balance
    if balance is None:
        return Chart(
            "Too few steps yet in which the ranks met."
            if job.live
            else "It is not known when the ranks met: no blocking collective and no DDP was "
            "seen, or the hosts' clocks were not compared.",
            None,
            columns,
        )
    hosts = {row.rank: row.host for row in job.ranks}
    rows = [
        [
            row.rank,
            hosts.get(row.rank, ""),
            row.waiting_s,
            100 * row.waiting_s / balance.step_s,
            100 * row.last_share,
            row.waiting_j,
        ]
        for row in balance.ranks
    ]
    shown = sorted(balance.ranks, key=lambda row: -row.waiting_s)[:_MAX_BARS]
    names = [f"rank {row.rank}" for row in shown]
    slowest = balance.slowest
    texts = [
        f" {duration(row.waiting_s)}" + (", the slowest" if row.rank == slowest else "")
        for row in shown
    ]
    longest_s = max((row.waiting_s for row in shown), default=0.0)
    drawn = figure(
        [
            {
                "type": "bar",
                "orientation": "h",
                "y": names,
                "x": [1e3 * row.waiting_s for row in shown],
                "marker": {"color": [VERMILION if row.rank == slowest else BLUE for row in shown]},
                "text": texts,
                "textposition": "outside",
                "cliponaxis": False,
                "hoverinfo": "skip",
            }
        ],
        height=70 + 26 * len(shown),
        x="waits per step (ms)",
        margin=beside(texts),
        bargap=0.3,
        xaxis={"range": [0, 1000 * max(longest_s, 1e-6)], "fixedrange": True},
        yaxis={"autorange": "reversed", "showgrid": False, "fixedrange": True},
    )
    return Chart(_caption(balance), drawn, columns, rows)


def _caption(balance: RankBalance) -> str:
    skew, step_s = balance.skew_s, balance.step_s
    apart = (
        f"The first and the last rank come {duration(skew.median)} apart in the middle, "
        f"{duration(skew.p95)} in one step of twenty; a step takes {duration(step_s)}."
    )
    if balance.slowest is None:
        return f"No rank is slower than chance. {apart}"
    most = max(row.waiting_s for row in balance.ranks)
    return (
        f"Rank {balance.slowest} is the slowest: others wait up to {duration(most)} for it, "
        f"{100 * most / step_s:.0f} % of a step. {apart}"
    )


def communication(job: JobView) -> Chart:
    """Cost of communication per rank as a table: blocking, busy and exposed time, unmerged."""
    columns = [
        Column("rank", "rank"),
        Column("blocking_s", "blocking (s)"),
        Column("busy_s", "busy (s)"),
        Column("exposed_s", "exposed at least (s)"),
        Column("cost_s", "exposed + contention (s)"),
        Column("method", "how"),
    ]
    rows = [
        [row.rank, row.blocking_s, row.busy_s, row.exposed_s, row.cost_s, row.method]
        for row in job.communication
    ]
    return Chart(
        "Per step that reduces gradients: collectives in which the training waited; how "
        "long collectives ran; what backward waited for at its end; and how much longer "
        "it took than without them."
        if rows
        else "Told when the run has ended."
        if job.live
        else "None was seen.",
        None,
        columns,
        rows,
    )


def rank_rows(job: JobView) -> Cells:
    """Cells of the table of ranks."""
    return [
        [
            str(row.rank),
            row.host,
            "—" if job.live else str(row.steps),
            ", ".join(row.devices) or "—",
            _or_dash(row.energy_j, energy),
        ]
        for row in job.ranks
    ]


def host_rows(job: JobView) -> Cells:
    """Cells of the table of hosts."""
    return [
        [
            row.host,
            row.status,
            ", ".join(map(str, row.ranks)),
            _or_dash(row.energy_j, energy),
            clock(row.clock),
            row.ended_by,
        ]
        for row in job.hosts
    ]


def attempt_rows(job: JobView) -> Cells:
    """Cells of the table of attempts."""
    return [
        [
            str(row.attempt),
            row.host,
            f"{row.begin_s:.1f}",
            f"{row.end_s:.1f}",
            str(row.steps),
            _or_dash(row.energy_j, energy),
            _or_dash(row.lost_j, energy),
            row.ended_by,
        ]
        for row in job.attempts
    ]


def cost_rows(job: JobView) -> Cells:
    """Cells of the table of communication."""
    return [
        [
            f"rank {row.rank}",
            *(
                _or_dash(seconds, duration)
                for seconds in (row.blocking_s, row.busy_s, row.exposed_s, row.cost_s)
            ),
            row.method,
        ]
        for row in job.communication
    ]


def _or_dash(value: _Value | None, formatted: Callable[[_Value], str]) -> str:
    return "—" if value is None else formatted(value)
