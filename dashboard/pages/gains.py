"""Did it pay, and in which phase: runs compared with runs, techniques one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, dcc, html
from flask import request

from probe.compare.formats import Part, parts
from probe.compare.model import ComparisonReport
from probe.compare.statistics import FEWEST_RUNS
from probe.errors import ProbeError
from probe.report.text_tables import Table

from ..chart_data import Chart
from ..components import card, notice, shell, table, trouble, with_code
from ..context import AppContext, app_context
from ..figures.ablation import by_technique
from ..figures.gains import by_cell, by_kind, by_phase
from ..hidden import hidden_of
from ..page import Address, ChartTable, Page, Query
from ..still import Still
from ..urls import MEMBER, snapshot
from . import _gains_form, _objective
from ._objective import Asked

_PATH = "/gains"
_TARGET, _COMPARISON = "target", "comparison"  # ids
_OBJECTIVE = "objective"
_ASKED = "gains-asked"  # of a store


def _layout(context: AppContext, address: Address) -> Any:
    """The page for ``?base=plain&other=paper&other=amp&target=loss<=2.5``."""
    base, target = _text(address.get("base")), _text(address.get("target"))
    other = address.get("other", "")
    others = [text for text in ([other] if isinstance(other, str) else other) if _text(text)]
    choices, asked = _gains_form.choices(context), Asked.of(address)
    form = html.Form(
        [
            *_gains_form.sides(choices, base, others),
            html.Div(
                [
                    html.Label("until a target, like loss<=2.5 (may be empty)", htmlFor=_TARGET),
                    dcc.Input(id=_TARGET, name="target", value=target, type="text", maxLength=100),
                ]
            ),
            _objective.fields(asked),
            html.Div(html.Button("Compare", type="submit", className="main")),
        ],
        className="form",
        method="get",
        action=context.href(_PATH),
    )
    return shell(
        form,
        dcc.Store(
            id=_ASKED, data={"base": base, "others": others, "target": target} | dict(asked.query())
        ),
        *(
            dcc.Loading(html.Div(id=name, className="results"), type="dot", delay_show=300)
            for name in (_COMPARISON, _OBJECTIVE)
        ),
        *_ablations(context),
        title="Gains",
        wide=True,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _callbacks(app: Dash) -> None:
    """The form makes an address; the address makes the comparison."""

    @app.callback(Output(_COMPARISON, "children"), Input(_ASKED, "data"))
    def compared(asked: Any) -> Any:
        base, others, target = _sides(asked)
        if not base or not others:
            return notice(
                "Mark runs in the list and press Compare, or write here what to compare. A name "
                f"means all runs of that name; a verdict needs {FEWEST_RUNS} or more runs a side."
            )
        context, query = app_context(), comparison_query(base, others, target)
        return _or_trouble(
            lambda: [
                html.P(
                    html.A(
                        "Snapshot: this comparison as one file",
                        href=context.href(snapshot("gains", asked=query)),
                        download="",
                        className="button",
                        title="without command, paths, host, user and configuration",
                    ),
                    className="do",
                ),
                *_comparison(
                    context.comparisons.compare(base, others, target),
                    lambda name: context.chart_links("gains", name, asked=query),
                ),
            ]
        )

    @app.callback(Output(_OBJECTIVE, "children"), Input(_ASKED, "data"))
    def weighed(asked: Any) -> Any:
        base, others, target = _sides(asked)
        if not base or not others:
            return notice(
                "The Pareto front of time, memory and energy is drawn when runs are chosen."
            )
        context, of = app_context(), Asked.of(asked)
        links = context.chart_links(
            "gains", "pareto", asked=comparison_query(base, others, target) + of.query()
        )
        return _or_trouble(
            lambda: _objective.shown(
                context.comparisons.objective([base, *others], target, *of.parsed()), of, links
            )
        )


def _sides(asked: object) -> tuple[str, list[str], str]:
    """Base, others and target of what a browser sent."""
    asked = asked if isinstance(asked, dict) else {}
    others = asked.get("others")
    return (
        str(asked.get("base") or ""),
        [str(other) for other in others] if isinstance(others, list) else [],
        str(asked.get("target") or ""),
    )


def _or_trouble(make: Callable[[], list[Any]]) -> Any:
    """What is made, or a line that says why it cannot be."""
    try:
        return make()
    except (ProbeError, OSError) as error:
        return trouble(error)
    except Exception as error:
        return trouble(f"This cannot be compared: {type(error).__name__}. A run may be damaged.")


def comparison_query(base: str, others: Sequence[str], target: str) -> list[tuple[str, str]]:
    """Pairs of a query that asks for a comparison."""
    pairs = [(key, value) for key, value in (("base", base), ("target", target)) if value]
    return pairs + [("other", other) for other in others]


def charts(report: ComparisonReport) -> dict[str, tuple[str, Chart]]:
    """All charts of a comparison: name → title and chart."""
    named: dict[str, tuple[str, Chart]] = {}
    for place, comparison in enumerate(report.comparisons):
        named[f"phases-{place}"] = "Saved in which phase", by_phase(report, comparison)
        named[f"cells-{place}"] = "By stage and class of work", by_cell(comparison)
        named[f"four-{place}"] = "By kind of phase", by_kind(comparison)
    return named


def _comparison(report: ComparisonReport, links: Callable[[str], tuple[str, str]]) -> list[Any]:
    """For every other side: the answer, the phases, their chart, then all other figures."""
    named = charts(report)

    def chart_card(name: str) -> Any:
        title, chart = named[name]
        return card(name, title, chart=chart, hrefs=links(name))

    shown: list[Any] = [notice(line, "warn") for line in report.warnings]
    for place, part in enumerate(parts(report)):
        cards = [chart_card(f"{name}-{place}") for name in ("phases", "cells", "four")]
        shown += [
            html.H2(part.answer, className=f"verdict {str(part.verdict).replace(' ', '-')}"),
            html.P(part.basis, className="soft"),
            html.H3(_capital(part.tables[0].title)),
            _figures(part.tables[0]),
            html.Div(cards, className="cards"),
            html.Ul([html.Li(with_code(line)) for line in part.remarks], className="soft"),
            *_folded(part),
        ]
    return shown


def _still(context: AppContext, _: Mapping[str, str], asked: Query, is_open: bool) -> Still:
    """The comparison of the query as one file. Raises StoreError, UsageError."""
    base, target = ((asked.get(key) or [""])[0] for key in ("base", "target"))
    report = context.comparisons.compare(base, list(asked.get("other", ())), target)
    sides = [report.base, *(comparison.other for comparison in report.comparisons)]
    runs = [
        context.library.open(run_id.replace("/", MEMBER)) for side in sides for run_id in side.ids
    ]
    title = " and ".join(side.name for side in sides)
    body = [html.H1(f"Compared: {title}"), *_comparison(report, lambda _: ("", ""))]
    name = "phasewatt-" + "-".join(side.name for side in sides)
    return Still(title, name, html.Main(body, className="wide"), hidden_of(runs, is_open))


def _folded(part: Part) -> list[Any]:
    """All tables but the first, each behind its title."""
    return [
        html.Details([html.Summary(_capital(figures.title)), _figures(figures)])
        for figures in part.tables[1:]
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


def _ablations(context: AppContext) -> list[Any]:
    shown: list[Any] = []
    for place, ablation in enumerate(context.comparisons.ablations()):
        folder = ablation["folder"]
        try:
            chart = by_technique(ablation)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            shown.append(
                trouble(
                    f"The ablation in {folder} was made by another version "
                    "and cannot be shown: run `probe ablate` there again."
                )
            )
            continue
        title = f"Ablation in {folder}: {ablation['design']}, {ablation.get('blocks')} blocks"
        links = context.chart_links("ablation", folder)
        body = card(f"ablation-{place}", title, chart=chart, wide=True, hrefs=links)
        shown.append(html.Div([body], className="cards"))
    return [html.H2("Technique by technique"), *shown] if shown else []


def _comparison_table(context: AppContext, name: str) -> ChartTable:
    base, target = request.args.get("base", ""), request.args.get("target")
    others = request.args.getlist("other")
    if name == "pareto":
        asked = Asked.of(request.args)
        weighed = context.comparisons.objective([base, *others], target, *asked.parsed())
        return ChartTable("Pareto front", f"gains-{name}", asked.chart(weighed))
    report = context.comparisons.compare(base, others, target)
    title, chart = charts(report)[name]
    return ChartTable(title, f"gains-{name}", chart)


def _ablation_table(context: AppContext, folder: str) -> ChartTable:
    for ablation in context.comparisons.ablations():
        if ablation["folder"] == folder:
            title = f"Ablation in {folder}"
            return ChartTable(title, f"ablation-{folder}", by_technique(ablation))
    raise KeyError(folder)


PAGE = Page(
    path=_PATH,
    title="Gains · phasewatt",
    layout=_layout,
    callbacks=_callbacks,
    navigation=(2, "Gains"),
    stills={"gains": _still},
    tables={"gains/<name>": _comparison_table, "ablation/<folder>": _ablation_table},
)
