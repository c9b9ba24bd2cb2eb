"""The result of a search as text for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from probe.report.numbers import duration, energy, number
from probe.report.text_tables import Table

from .objective import Objective
from .outcome import written
from .proof import WHAT
from .result import SearchResult, Spent

_SHOWN = 10


def render(result: SearchResult, objective: Objective) -> str:
    """The verdict, the champion's command, what it all cost, the best configurations."""
    lines = [*_answer(result, objective), "", *_cost(result), ""]
    lines += _table(result, objective).lines()
    lines += [f"! {note}" for note in result.notes]
    return "\n".join(lines)


def _answer(result: SearchResult, objective: Objective) -> list[str]:
    what = written(result.champion or {})
    if result.champion is None:
        return [f"no evidence: {result.reason}"]
    if result.gain is None or result.percent is None:
        return [f"{result.verdict}: {what}", f"  {result.reason}"]
    more = "less" if result.gain >= 0 else "more"
    lines = [
        f"{result.verdict}: {what}",
        f"  {number(abs(result.percent))} % {more} {WHAT[result.objective]} to {result.target} "
        "than the script's own setting",
        f"  {objective.written(result.default_value)} before, "
        f"{objective.written(result.champion_value)} now: saves {objective.written(result.gain)} a "
        f"training{_between(result, objective)}, {result.pairs} pairs on fresh seeds",
    ]
    if result.reason:
        lines.append(f"  {result.reason}")
    set_ = [f"{name}={value}" for name, value in result.environment.items()]
    return [*lines, f"  {shlex.join([*set_, *result.words])}"]


def _between(result: SearchResult, objective: Objective) -> str:
    if result.interval is None:
        return ""
    low, high = map(objective.written, result.interval)
    return f" (95 %: {low} … {high})"


def _cost(result: SearchResult) -> list[str]:
    took = f"the search took {_spent(result.search)}"
    lines = [took + (f"; its proof {_spent(result.proof)}" if result.proof.trainings else "")]
    if result.pays_back is not None:
        after = f"  paid back after {result.pays_back} trainings"
        if result.pays_back_interval is not None:
            soonest, latest = result.pays_back_interval
            after += f" (95 %: {soonest} … {'never' if latest is None else latest})"
        lines.append(after)
    states = [f"{count} {state}" for state, count in sorted(result.by_state.items())]
    return [*lines, f"  {', '.join(states)}"]


def _spent(spent: Spent) -> str:
    parts = [
        f"{spent.trainings} training{'' if spent.trainings == 1 else 's'}",
        duration(spent.seconds),
    ]
    return ", ".join(parts + ([] if spent.joules is None else [energy(spent.joules)]))


def _table(result: SearchResult, objective: Objective) -> Table:
    rows: list[Sequence[str]] = [
        [
            written(row.settings),
            str(row.trainings),
            objective.written(row.value),
            row.why if row.failed else "",
        ]
        for row in result.configurations[:_SHOWN]
    ]
    left_out = len(result.configurations) - len(rows)
    title = "what was tried, best first" + (f" ({left_out} more in --json)" if left_out else "")
    return Table(
        title,
        ["configuration", "trainings", WHAT[result.objective], "why not"],
        rows,
        frozenset({0, 3}),
    )
