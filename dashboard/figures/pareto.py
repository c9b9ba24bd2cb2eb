"""Configurations by two of their costs: which should I pick?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from probe.compare.objective.model import Configuration, ObjectiveReport, Place, Term
from probe.compare.objective.quantities import said, unit, written
from probe.compare.objective.text import answer, basis, front_words, quantity_words
from probe.report.sentences import short

from ..chart_data import Cell, Chart, Column, Fragment
from .edp_lines import edp_lines
from .label_places import Labels, Text
from .limit_lines import limit_lines
from .style import SERIES, figure, listed, plain

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "x", "hexagon")
_SCALES = {"B": (2.0**20, "MiB")}  # other units stay as they are
_ROOM = 0.12  # beside the outermost points, as a share
_NEAR = 0.25  # of the most: a limit so far off is still in the picture
_SMALLEST, _LARGEST = 11.0, 30.0  # diameter of a marker, in pixels


def pareto(report: ObjectiveReport, x: str = "time", y: str = "energy") -> Chart:
    """Each configuration by two quantities; its marker's size is its memory, if no axis is.

    Filled markers are on the Pareto front; constraints on an axis are lines.
    """
    columns = [
        Column("name", "name"),
        Column("runs", "runs"),
        Column("score", "C"),
        Column("score_low", "C from (95 %)"),
        Column("score_high", "C to (95 %)"),
        *(Column(name, _titled(report, name)) for name in _shown(x, y)),
        Column("constraints", "constraints"),
        Column("place", "Pareto front"),
    ]
    rows = [_row(report, each, x, y) for each in report.configurations]
    points = [each for each in report.configurations if _at(each, x, y) is not None]
    if not points:
        return Chart(_nothing(report, x, y), None, columns, rows)
    span_x, span_y = (_span(report, points, axis) for axis in (x, y))
    labels = Labels(span_x, span_y)
    placed = [
        (place, each, at)
        for place, each in enumerate(report.configurations)
        if (at := _at(each, x, y)) is not None
    ]
    for _, each, at in placed:
        labels.cover(*at, _marker_size(report, _memory(each, x, y)) / 2)
    markers = [
        _marker(report, each, place, at, (x, y), labels, span_x) for place, each, at in placed
    ]
    limits = [
        (axis, _scaled(limit.quantity, limit.value), limit)
        for limit in report.limits
        for axis, quantity in (("x", x), ("y", y))
        if limit.quantity == quantity
    ]
    shapes, notes = limit_lines(limits, {"x": span_x, "y": span_y}, labels)
    base = _at(report.configurations[0], x, y) if (x, y) == ("time", "energy") else None
    data = edp_lines(base, span_x, span_y, labels) + markers
    drawn = figure(
        data,
        height=420,
        x=_titled(report, x),
        y=_titled(report, y),
        xaxis={"range": list(span_x)},
        yaxis={"range": list(span_y)},
        shapes=shapes,
        annotations=notes,
    )
    caption = _caption(report, points, x, y) + _limit_words(report, {x: span_x, y: span_y})
    return Chart(caption, drawn, columns, rows)


def _shown(x: str, y: str) -> list[str]:
    return list(dict.fromkeys(("time", "memory", "energy", x, y)))


def _titled(report: ObjectiveReport, quantity: str) -> str:
    """With its unit on an axis or over a column."""
    name = unit(quantity)
    shown = _SCALES.get(name, (1.0, name))[1]
    return quantity_words(report, quantity) + (f" ({shown})" if shown else "")


def _scaled(quantity: str, value: float) -> float:
    return value / _SCALES.get(unit(quantity), (1.0, ""))[0]


def _value(each: Configuration, quantity: str) -> float | None:
    term = each.term(quantity)
    return None if term is None or term.value is None else _scaled(quantity, term.value)


def _at(each: Configuration, x: str, y: str) -> tuple[float, float] | None:
    across, up = _value(each, x), _value(each, y)
    return None if across is None or up is None else (across, up)


def _row(report: ObjectiveReport, each: Configuration, x: str, y: str) -> list[Cell]:
    low, high = each.score_interval or (None, None)
    kept = [f"{said(constraint.limit)}: {constraint.state}" for constraint in each.constraints]
    return [
        each.name,
        len(each.ids),
        each.score,
        low,
        high,
        *(_value(each, name) for name in _shown(x, y)),
        "; ".join(kept),
        front_words(each),
    ]


def _span(
    report: ObjectiveReport, points: Sequence[Configuration], axis: str
) -> tuple[float, float]:
    """From the least to the most, with room for intervals and limits that end near."""
    values = [value for each in points if (value := _value(each, axis)) is not None]
    least, most = min(values), max(values)
    spread = (most - least) or _NEAR * abs(most) or 1.0
    near_limit = max(spread, _NEAR * abs(most))
    ends = [(limit.value, near_limit) for limit in report.limits if limit.quantity == axis]
    for each in points:
        term = each.term(axis)
        if term is not None and term.interval is not None:
            ends += [(end, spread) for end in term.interval]
    near = [
        at for end, reach in ends if least - reach <= (at := _scaled(axis, end)) <= most + reach
    ]
    low, high = min(least, *near, most), max(most, *near, least)
    room = max(_ROOM * (high - low), 0.05 * abs(high)) or 1.0
    return low - room, high + room


def _memory(each: Configuration, x: str, y: str) -> float | None:
    """Bytes that its marker shows: none where an axis does."""
    return None if "memory" in (x, y) else _raw(each, "memory")


def _label_choices(
    each: Configuration, at: tuple[float, float], note: str, away: float, middle: float
) -> Iterator[Text]:
    """Labels to try beside the whiskers, the preferred ones first: long, on the wider side."""
    sides = ("left", "right") if at[0] > middle else ("right", "left")
    names = (f"{plain(each.name, 24)}{note}", plain(each.name, 24), plain(each.name, 10))
    for words in dict.fromkeys(names):
        for side in sides:
            for height in ("top", "bottom"):
                yield Text(*at, words, f"{height} {side}", away)


def _marker(
    report: ObjectiveReport,
    each: Configuration,
    place: int,
    at: tuple[float, float],
    axes: tuple[str, str],
    labels: Labels,
    span_x: tuple[float, float],
) -> Fragment:
    x, y = axes
    symbol = _SYMBOLS[place % len(_SYMBOLS)]
    memory = _memory(each, x, y)
    size = _marker_size(report, memory)
    note = "" if memory is None else f", {written('memory', memory)}"
    # A name without room is still in the hover text and in the table.
    away = size / 2 / 0.8 + 1  # as plotly places the text of a marker
    text = labels.add(_label_choices(each, at, note, away, sum(span_x) / 2))
    score = "" if each.score is None else f"<br>C {each.score:.4g}"
    words = f"{written(x, _raw(each, x))}, {written(y, _raw(each, y))}{note}"
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [at[0]],
        "y": [at[1]],
        "text": [text.words if text else ""],
        "textposition": text.position if text else "top right",
        "cliponaxis": False,
        "marker": {
            "size": size,
            "color": SERIES[place % len(SERIES)],
            "symbol": symbol if each.place is Place.FRONT else f"{symbol}-open",
            "line": {"width": 2},
        },
        "error_x": _error_bar(each.term(x)),
        "error_y": _error_bar(each.term(y)),
        "hovertext": [f"{plain(each.name)}<br>{words}{score}<br>{plain(front_words(each), 200)}"],
        "hoverinfo": "text",
    }


def _raw(each: Configuration, quantity: str) -> float | None:
    term = each.term(quantity)
    return None if term is None else term.value


def _marker_size(report: ObjectiveReport, memory: float | None) -> float:
    """Diameter in pixels: the area grows with memory, from the least to the most."""
    if memory is None:
        return _SMALLEST
    peaks = [
        term.value
        for each in report.configurations
        if (term := each.term("memory")) is not None and term.value
    ]
    most = max(peaks, default=0.0)
    return max(_SMALLEST, _LARGEST * (memory / most) ** 0.5) if most else _SMALLEST


def _error_bar(term: Term | None) -> Fragment:
    if term is None or term.value is None or term.interval is None:
        return {"visible": False}
    low, high = (_scaled(term.quantity, end) for end in term.interval)
    middle = _scaled(term.quantity, term.value)
    return {
        "type": "data",
        "symmetric": False,
        "array": listed([high - middle]),
        "arrayminus": listed([middle - low]),
        "color": "#6b6b70",
        "thickness": 1.2,
        "width": 4,
    }


def _nothing(report: ObjectiveReport, x: str, y: str) -> str:
    """Why there is nothing to draw."""
    unknown = [
        quantity_words(report, name)
        for name in dict.fromkeys((x, y))
        if all(_value(each, name) is None for each in report.configurations)
    ]
    if unknown:
        verb = "is" if len(unknown) == 1 else "are"
        why = f"{' and '.join(unknown)} {verb} not known of any configuration"
    else:
        both = f"{quantity_words(report, x)} and {quantity_words(report, y)}"
        why = f"no configuration has both {both}"
    return f"There is nothing to draw, since {why}: choose other axes."


def _limit_words(report: ObjectiveReport, spans: Mapping[str, tuple[float, float]]) -> str:
    """The constraints on the axes as sentences: a label may have had no room at its line."""
    inside: list[str] = []
    beyond: list[str] = []
    for limit in report.limits:
        if limit.quantity in spans:
            low, high = spans[limit.quantity]
            is_inside = low <= _scaled(limit.quantity, limit.value) <= high
            (inside if is_inside else beyond).append(short(said(limit), 60))
    lists = (("Broken lines", inside), ("Beyond the picture", beyond))
    return "".join(f" {words}: {', '.join(names)}." for words, names in lists if names)


def _caption(report: ObjectiveReport, points: Sequence[Configuration], x: str, y: str) -> str:
    front = [short(each.name, 60) for each in points if each.place is Place.FRONT]
    sentences = [f"{answer(report)}.", f"{basis(report)}."]
    if front:
        sentences.append(f"Filled markers are on the front: {', '.join(front[:4])}.")
    if "memory" not in (x, y):
        sentences.append("The size of a marker is its peak memory.")
    if len(points) < len(report.configurations):
        left = [short(e.name, 60) for e in report.configurations if e not in points]
        sentences.append(f"Not drawn, for want of one of the two figures: {', '.join(left[:4])}.")
    if (x, y) == ("time", "energy"):
        sentences.append("Dotted lines join the same energy × delay (EDP).")
    return " ".join(sentences)
