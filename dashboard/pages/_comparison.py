"""What a comparison shows: the answer, what would make it sure, before and after, where it lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import dcc, html

from probe.compare.formats import Part, parts
from probe.compare.gain import Gain, closed, percent_of
from probe.compare.model import Comparison, ComparisonReport
from probe.compare.sure import to_be_sure
from probe.report.numbers import energy, number
from probe.report.text_tables import Table, mebibytes, seconds

from ..chart_data import Chart, LoggedSeries
from ..components import aria, as_one_file, card, notice, table, tile, tiles, with_code
from ..context import AppContext
from ..data.logged import of_all
from ..data.run import OpenRun
from ..figures.before_after import before_after
from ..figures.gains import by_cell, by_kind, by_phase
from ..figures.logged import offered
from ..figures.overlay import overlay
from ..page import Query
from ..snapshot.hidden import hidden_of
from ..snapshot.still import Still, variants
from ..urls import MEMBER, Selection, snapshot
from ..urls import query as query_of

_MOST_RUNS = 24  # in one picture
_OVERLAY = "Run against run"
_SAME = 0.05  # percent
Links = Callable[[str], tuple[str, str]]


def query(base: str, others: Sequence[str], target: str) -> list[tuple[str, str]]:
    """Pairs of a query that asks for a comparison."""
    pairs = [(key, value) for key, value in (("base", base), ("target", target)) if value]
    return pairs + [("other", other) for other in others]


def shown(
    context: AppContext, base: str, others: Sequence[str], target: str, selection: Selection
) -> list[Any]:
    """A comparison on its page. Raises ProbeError: it cannot be made, and why."""
    report = context.comparisons.compare(base, list(others), target)
    asked = query(base, others, target)

    def links(name: str) -> tuple[str, str]:
        return context.chart_links("gains", name, asked=asked + _chosen(selection))

    common, series, count = _logged(context, report, selection)
    return [
        as_one_file(context.href(snapshot("gains", asked=asked)), "this comparison"),
        *_blocks(report, links),
        html.Div(
            card(
                "overlay",
                _OVERLAY,
                chart=overlay(series, count),
                hrefs=links("overlay"),
                wide=True,
                extra=_choices(context, asked, common, series),
            ),
            className="cards",
        ),
    ]


def still(context: AppContext, _: Mapping[str, str], asked: Query, is_open: bool) -> Still:
    """The comparison of the query as one file. Raises StoreError, UsageError."""
    base, target = ((asked.get(key) or [""])[0] for key in ("base", "target"))
    report = context.comparisons.compare(base, list(asked.get("other", ())), target)
    runs = [run for _, run in _runs(context, report)]
    names = [report.base.name, *(comparison.other.name for comparison in report.comparisons)]
    body: list[Any] = [html.H1(f"Compared: {' and '.join(names)}")]
    body += _blocks(report, lambda _: ("", ""))
    first = _logged(context, report, Selection())[1]
    if first:
        entries = []
        for key, word in offered(first[0][2].axes):
            series, count = _logged(context, report, Selection(over=key))[1:]
            entries.append((word, dcc.Graph(figure=overlay(series, count).figure)))
        entries.sort(key=lambda entry: entry[0] != "J")
        body.append(
            html.Section([html.H2(_OVERLAY), variants("over", entries)], className="card wide")
        )
    return Still(
        " and ".join(names),
        "phasewatt-" + "-".join(names),
        html.Main(body, className="wide"),
        hidden_of(runs, is_open),
    )


def chart(
    context: AppContext,
    base: str,
    others: Sequence[str],
    target: str | None,
    name: str,
    asked: Mapping[str, str],
) -> tuple[str, Chart]:
    """(title, chart) by the name that it has in addresses. Raises ProbeError, KeyError."""
    report = context.comparisons.compare(base, list(others), target)
    if name == "overlay":
        _, series, count = _logged(context, report, Selection.of(asked))
        return _OVERLAY, overlay(series, count)
    return charts(report)[name]


def charts(report: ComparisonReport) -> dict[str, tuple[str, Chart]]:
    """All charts of a comparison: name → title and chart."""
    named: dict[str, tuple[str, Chart]] = {}
    for place, comparison in enumerate(report.comparisons):
        named[f"before-{place}"] = "Before and after", before_after(report, comparison)
        named[f"phases-{place}"] = "Saved in which phase", by_phase(report, comparison)
        named[f"cells-{place}"] = "By stage and class of work", by_cell(comparison)
        named[f"four-{place}"] = "By kind of phase", by_kind(comparison)
    return named


def _blocks(report: ComparisonReport, links: Links) -> list[Any]:
    """For every other side: the answer, its figures, charts, then all tables, folded."""
    named = charts(report)

    def chart_card(name: str) -> Any:
        title, chart = named[name]
        return card(name, title, chart=chart, hrefs=links(name))

    blocks: list[Any] = [notice(line, "warn") for line in report.warnings]
    for place, (part, comparison) in enumerate(zip(parts(report), report.comparisons, strict=True)):
        names = [f"{name}-{place}" for name in ("before", "phases", "cells", "four")]
        drawn = [name for name in names if named[name][1].figure is not None]
        undrawn = [named[name][1].caption for name in names if name not in drawn]
        cards = [chart_card(name) for name in drawn]
        sure = to_be_sure(comparison)
        blocks += [
            html.H2(part.answer, className=f"verdict {str(part.verdict).replace(' ', '-')}"),
            html.P(part.basis, className="soft"),
            html.P(sure, className="limit") if sure else "",
            tiles(_tiles(comparison)),
            html.Div(cards, className="cards"),
            html.Ul(
                [html.Li(with_code(line)) for line in (*undrawn, *part.remarks)], className="soft"
            ),
            *_folded(part),
        ]
    return blocks


def _tiles(comparison: Comparison) -> list[Any]:
    """Energy, time, memory and quality, before → after."""
    tiles_ = []
    for label, gain, word in (
        ("energy", comparison.energy_j, energy),
        ("time", comparison.time_s, seconds),
        ("peak memory", comparison.memory_bytes, mebibytes),
    ):
        if gain.base is not None and gain.other is not None:
            tiles_.append(tile(label, f"{word(gain.base)} → {word(gain.other)}", _saved(gain)))
    quality = comparison.quality
    if quality.metric is not None and quality.base is not None and quality.other is not None:
        values = f"{number(quality.base)} → {number(quality.other)}"
        tiles_.append(tile(f"quality: {quality.metric}", values, _judged(quality.ok)))
    else:
        tiles_.append(tile("quality", "—", "no metric was logged by all runs"))
    return tiles_


def _judged(ok: bool | None) -> str:
    if ok is None:
        return "not judged"
    return "as good, within what is allowed" if ok else "worse than what is allowed"


def _saved(gain: Gain) -> str:
    if not gain.percent or abs(gain.percent) < _SAME:
        return "the same"
    sure = ""
    if gain.base and gain.interval and (limits := closed(percent_of(gain.base, gain.interval))):
        low, high = sorted(-end for end in limits)
        sure = f" (95 %: {low:+.0f} … {high:+.0f} %)".replace("-", "−")
    return f"{-gain.percent:+.1f} %".replace("-", "−") + sure


def _folded(part: Part) -> list[Any]:
    """All tables, each behind its title."""
    return [
        html.Details([html.Summary(_capital(figures.title)), _figures(figures)])
        for figures in part.tables
    ]


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]


def _figures(figures: Table) -> Any:
    return table(
        figures.head,
        figures.rows,
        caption=figures.title,
        numbers=[i for i in range(len(figures.head)) if i not in figures.text],
    )


def _runs(context: AppContext, report: ComparisonReport) -> list[tuple[str, OpenRun]]:
    """(side, run) of every run that is compared."""
    sides = [report.base, *(comparison.other for comparison in report.comparisons)]
    return [
        (side.name, context.library.open(run_id.replace("/", MEMBER)))
        for side in sides
        for run_id in side.ids
    ]


def _logged(
    context: AppContext, report: ComparisonReport, selection: Selection
) -> tuple[list[str], list[tuple[str, str, LoggedSeries]], int]:
    """(names that all logged, values of each run, number of runs)."""
    runs = _runs(context, report)[:_MOST_RUNS]
    common, series = of_all(runs, selection.value, selection.over or "energy")
    return common, series, len(runs)


def _chosen(selection: Selection) -> list[tuple[str, str]]:
    return [(key, value) for key, value in selection.query().items() if key in ("v", "x")]


def _choices(
    context: AppContext,
    asked: Sequence[tuple[str, str]],
    common: Sequence[str],
    series: Sequence[tuple[str, str, LoggedSeries]],
) -> list[Any]:
    """Links to the same page with another value, or over something else."""
    if not series:
        return []
    first = series[0][2]

    def links(label: str, entries: Sequence[tuple[str, str]], on: str, key: str) -> Any:
        now = {"v": first.name, "x": first.over}
        made = [
            html.A(
                word,
                href=context.href("/gains") + query_of([*asked, *(now | {key: value}).items()]),
                className="on" if value == on else "",
                **aria(current="true" if value == on else "false"),
            )
            for value, word in entries
        ]
        return html.Nav([html.Span(label.lower()), *made], className="spans", **aria(label=label))

    return [
        links("Value", [(name, name) for name in common], first.name, "v"),
        links("Over", offered(first.axes), first.over, "x"),
    ]
