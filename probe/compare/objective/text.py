"""The objective as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable

from ...report.numbers import data_size, duration, energy, number, plus_minus
from ...report.text_tables import Table
from .scores import TERMS, CheckedLimit, Mean, Met, Objective, Score

WIDTH = 100
_SHOWN: dict[str, Callable[[float], str]] = {
    "time": duration,
    "memory": data_size,
    "energy": energy,
}


def text(result: Objective, width: int = WIDTH) -> str:
    """All of it, in so many columns."""
    lines = [headline(result), ""]
    for table in tables(result):
        lines += [*table.lines(width), ""]
    return "\n".join([*lines, *(f"! {note}" for note in result.notes)]).rstrip()


def headline(result: Objective) -> str:
    """Which configuration costs least, in one line."""
    best = result.scores[0]
    weights = ", ".join(f"{name} {weight:g}" for name, weight in result.weights.items())
    if best.cost is None or any(limit.met is Met.NO for limit in best.limits):
        return f"no configuration meets all constraints ({weights})"
    if best.name == result.baseline:
        return f"no configuration costs less than the baseline {best.name} ({weights})"
    return (
        f"{best.name} costs least: {_cost(best.cost)}, against {_total(result):g} of "
        f"{result.baseline} ({weights})"
    )


def _total(result: Objective) -> float:
    return sum(result.weights.values())


def tables(result: Objective) -> list[Table]:
    """Costs and terms, then the constraints where there are any."""
    head = ["configuration", "runs", "cost", *TERMS, "front"]
    rows = [
        [
            score.name,
            str(len(score.runs)),
            "—" if score.cost is None else _cost(score.cost),
            *(_quantity(name, score.quantities.get(name)) for name in TERMS),
            _place(score),
        ]
        for score in result.scores
    ]
    shown = [Table("cost, cheapest first", head, rows, frozenset({0, 6}), optional=(1,))]
    if any(score.limits for score in result.scores):
        limits = result.scores[0].limits
        names = [_limit(limit) for limit in limits]
        body = [
            [score.name, *map(_state, score.limits, _of_limits(score))] for score in result.scores
        ]
        head = ["configuration", *names]
        shown.append(Table("constraints", head, body, frozenset(range(len(head)))))
    return shown


def _of_limits(score: Score) -> list[Mean | None]:
    return [score.quantities.get(limit.quantity) for limit in score.limits]


def _state(limit: CheckedLimit, known: Mean | None) -> str:
    return str(limit.met) if known is None else f"{_quantity(limit.quantity, known)}: {limit.met}"


def _limit(limit: CheckedLimit) -> str:
    sign = "≥" if limit.at_least else "≤"
    return f"{limit.quantity} {sign} {_value(limit.quantity, limit.limit)}"


def _cost(cost: Mean) -> str:
    if cost.interval is None:
        return f"{cost.value:.3g}"
    return plus_minus(cost.value, (cost.interval[1] - cost.interval[0]) / 2)


def _quantity(name: str, known: Mean | None) -> str:
    if known is None:
        return "not measured"
    if known.interval is None or not known.value:
        return _value(name, known.value)
    half = 50 * (known.interval[1] - known.interval[0]) / abs(known.value)
    return (
        f"{_value(name, known.value)} ± {half:.2g} %"
        if half < 99.5
        else (f"{_value(name, known.value)} ± {half:.0f} %")
    )


def _value(name: str, value: float) -> str:
    return _SHOWN[name](value) if name in _SHOWN else number(value)


def _place(score: Score) -> str:
    if any(limit.met is Met.NO for limit in score.limits):
        return "breaks a constraint"
    if score.on_front:
        return "on the front"
    if score.beaten_by:
        return f"beaten by {score.beaten_by}"
    return f"not surely better than {score.tied_with}" if score.tied_with else "a term is missing"
