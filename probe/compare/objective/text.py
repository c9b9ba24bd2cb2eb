"""The objective in words and tables, for a terminal and for pages."""

from __future__ import annotations

import textwrap

from ...report.numbers import interval, number
from ...report.sentences import short
from ...report.text_tables import Table
from ..gain import Interval
from .model import Configuration, ObjectiveReport, Place, State, Term
from .quantities import (
    COSTS,
    GRADIENT_NORM,
    GRADIENT_VARIANCE,
    label,
    said,
    written,
    written_interval,
)

_LONGEST = 60
_NOTHING = "—"


def render(report: ObjectiveReport, width: int | None = None) -> str:
    """The answer, the tables, then remarks; None: of any width."""
    lines: list[str] = []

    def add(sentence: str, first: str = "", others: str = "") -> None:
        lines.extend(
            textwrap.wrap(
                sentence,
                width or 10**6,
                initial_indent=first,
                subsequent_indent=others,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )

    add(answer(report))
    add(basis(report), "  → ", "    ")
    for table in tables(report):
        lines += ["", *table.lines(width)]
    lines.append("")
    add(report.method, "  ", "    ")
    for warning in report.warnings:
        add(warning, "! ", "  ")
    return "\n".join(lines)


def answer(report: ObjectiveReport) -> str:
    """Which configuration has the lowest objective, and how sure that is."""
    best = next((each for each in report.configurations if each.name == report.lowest), None)
    if best is None:
        if any(each.feasible for each in report.configurations):
            return "no verdict: no configuration that may keep the constraints has a known C"
        return "no configuration keeps all constraints"
    if len(report.configurations) == 1:
        return (
            f"C of {_name(best.name)} is {number(best.score)}, the sum of the weights, since it is "
            "its own base: name others to compare it with"
        )
    tied = [_name(each.name) for each in report.configurations if each.ties_with_lowest]
    sentence = f"{_name(best.name)} has the lowest C: {_score(best)}{_limits(best)}"
    if tied:
        sentence += f"; {_listed(tied)} cannot be told from it"
    unsaid = [said(each.limit) for each in best.constraints if each.state is State.UNSAID]
    if unsaid:
        sentence += f"; whether it keeps {_listed(unsaid)} cannot be said"
    return sentence


def basis(report: ObjectiveReport) -> str:
    """The equation that was asked for."""
    symbols = {name: COSTS[name].symbol for name in report.weights}
    terms = " + ".join(
        f"{weight:g} {symbols[name]}/{symbols[name]}₀" for name, weight in report.weights.items()
    )
    limits = ", ".join(said(limit) for limit in report.limits)
    until = f", until {report.target}" if report.target else ""
    under = f" under {limits}" if limits else ""
    return (
        f"C = {terms}{under}, relative to {_name(report.base)}{until}; "
        f"Pareto front of {_listed([label(name) for name in report.front])}"
    )


def tables(report: ObjectiveReport) -> list[Table]:
    """The configurations, what each of them cost, and the constraints."""
    shown = [_scores(report), _terms(report)]
    return [*shown, _constraints(report)] if report.limits else shown


def front_words(each: Configuration) -> str:
    """Where it lies against the others, and who beats it."""
    if each.place is Place.DOMINATED:
        return f"dominated by {_listed([_name(name) for name in each.beaten_by])}"
    if each.place is Place.TIED:
        return f"tied with {_listed([_name(name) for name in each.beaten_by])}"
    return str(each.place)


def unit_of(report: ObjectiveReport) -> str:
    """The unit of work: sample, token or step."""
    return report.work.removesuffix("s")


def quantity_words(report: ObjectiveReport, quantity: str) -> str:
    """What people call a quantity of this report."""
    return label(quantity).replace("sample", unit_of(report))


def _scores(report: ObjectiveReport) -> Table:
    weighed = list(report.weights)
    rows = [
        [
            _name(each.name),
            str(len(each.ids)),
            _score(each),
            _interval(each.score_interval) or each.reason,
            *(_share(each.term(name)) for name in weighed),
            _kept(each),
            front_words(each),
        ]
        for each in _sorted(report)
    ]
    head = ["", "runs", "C", "95 % interval"]
    head += [f"{COSTS[name].symbol}/{COSTS[name].symbol}₀" for name in weighed]
    head += ["constraints", "Pareto front"]
    last = len(head) - 1
    return Table("the objective", head, rows, frozenset({0, 3, last - 1, last}))


def _terms(report: ObjectiveReport) -> Table:
    rows = []
    for each in _sorted(report):
        for term in each.terms:
            if term.value is None and not _is_asked(report, term.quantity):
                continue
            has_value = term.value is not None
            rows.append(
                [
                    _name(each.name),
                    quantity_words(report, term.quantity),
                    written(term.quantity, term.value) if has_value else "unknown",
                    written_interval(term.quantity, term.interval)
                    or (term.reason if not has_value else _why_no_interval(each)),
                    number(term.weighted) if term.weight else "",
                ]
            )
        if each.modelled_energy_j is not None:
            modelled = written("energy", each.modelled_energy_j)
            rows.append([_name(each.name), "energy (modelled)", modelled, "never part of C", ""])
    head = ["", "quantity", "mean", "95 % interval", "part of C"]
    return Table("what each of them costs", head, rows, frozenset({0, 1, 3}))


def _constraints(report: ObjectiveReport) -> Table:
    rows = [
        [
            _name(each.name),
            said(constraint.limit),
            written(constraint.limit.quantity, constraint.value)
            if constraint.value is not None
            else "unknown",
            written_interval(constraint.limit.quantity, constraint.interval),
            str(constraint.state) + (f": {constraint.reason}" if constraint.reason else ""),
        ]
        for each in _sorted(report)
        for constraint in each.constraints
    ]
    head = ["", "constraint", "mean", "95 % interval", "state"]
    return Table("the constraints", head, rows, frozenset({0, 1, 3, 4}))


def _sorted(report: ObjectiveReport) -> list[Configuration]:
    """The lowest C first; those that break a constraint, or have no C, last."""
    return sorted(
        report.configurations,
        key=lambda each: (not each.feasible, each.score is None, each.score or 0.0),
    )


def _is_asked(report: ObjectiveReport, quantity: str) -> bool:
    paper = ("time", "memory", "energy", GRADIENT_NORM, GRADIENT_VARIANCE)
    return quantity in paper or quantity in report.weights or quantity in report.front


def _kept(each: Configuration) -> str:
    if not each.constraints:
        return _NOTHING
    states = [constraint.state for constraint in each.constraints]
    if all(state is State.MET for state in states):
        return "all met"
    worst = State.NOT_MET if State.NOT_MET in states else State.UNSAID
    return f"{states.count(worst)} of {len(states)}: {worst}"


def _why_no_interval(each: Configuration) -> str:
    return "one run" if len(each.ids) == 1 else "the runs do not differ"


def _share(term: Term | None) -> str:
    return _NOTHING if term is None or term.share is None else f"{100 * term.share:.3g} %"


def _limits(each: Configuration) -> str:
    interval = _interval(each.score_interval)
    return f" (95 %: {interval})" if interval else ""


def _interval(limits: Interval | None) -> str:
    return interval(*limits) if limits else ""


def _score(each: Configuration) -> str:
    limits = each.score_interval
    return number(each.score, (limits[1] - limits[0]) / 2 if limits else None)


def _name(name: str) -> str:
    return short(name, _LONGEST)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
