"""Did it pay: runs against runs, techniques one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, dcc, html
from flask import request

from probe.compare.formats import parts, what
from probe.errors import ProbeError
from probe.report.text_tables import Table

from ..chart_data import Chart
from ..components import card, notice, shell, table, trouble
from ..context import AppContext, app_context
from ..figures.ablation import by_technique
from ..figures.gains import by_cell, by_kind
from ..figures.pareto import pareto
from ..page import Address, ChartTable, Page

_PATH = "/gains"
_BASE, _OTHERS, _TARGET, _COMPARISON = "base", "others", "target", "comparison"  # ids
_ASKED = "gains-asked"  # of a store
_MAX_CHOICES = 2000


def _layout(context: AppContext, address: Address) -> Any:
    """The page for ``?base=plain&other=paper&other=amp&target=loss<=2.5``."""
    base, target = _text(address.get("base")), _text(address.get("target"))
    other = address.get("other", "")
    others = [text for text in ([other] if isinstance(other, str) else other) if _text(text)]
    choices = _choices(context, [base, *others])
    form = html.Form(
        [
            html.Div(
                [
                    html.Label("base: what you had", htmlFor=_BASE),
                    html.Select(
                        [html.Option("", value=""), *_options(choices, [base])],
                        id=_BASE,
                        name="base",
                    ),
                ]
            ),
            html.Div(
                [
                    html.Label(
                        "held against it: what you changed (Ctrl for several)", htmlFor=_OTHERS
                    ),
                    html.Select(
                        _options(choices, others),
                        id=_OTHERS,
                        name="other",
                        multiple=True,
                        size=str(min(5, max(2, len(choices)))),
                    ),
                ]
            ),
            html.Div(
                [
                    html.Label("until a target, like loss<=2.5 (may be empty)", htmlFor=_TARGET),
                    dcc.Input(id=_TARGET, name="target", value=target, type="text", maxLength=100),
                ]
            ),
            html.Button("Compare", type="submit"),
        ],
        className="form",
        method="get",
        action=context.href(_PATH),
    )
    return shell(
        form,
        dcc.Store(id=_ASKED, data={"base": base, "others": others, "target": target}),
        dcc.Loading(html.Div(id=_COMPARISON, className="results"), type="dot", delay_show=300),
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
        asked = asked if isinstance(asked, dict) else {}
        base, target = str(asked.get("base") or ""), str(asked.get("target") or "")
        others = asked.get("others")
        others = [str(other) for other in others] if isinstance(others, list) else []
        if not base or not others:
            return notice(
                "Choose a base and what to hold against it. A name stands for all runs "
                "so named: three or more of each make a verdict possible."
            )
        context, query = app_context(), comparison_query(base, others, target)
        try:
            return _comparison(
                context.comparisons.compare(base, others, target),
                lambda name: context.chart_links("gains", name, asked=query),
            )
        except (ProbeError, OSError) as error:
            return trouble(error)
        except Exception as error:
            return trouble(
                f"This cannot be compared: {type(error).__name__}. A run may be damaged."
            )


def comparison_query(base: str, others: Sequence[str], target: str) -> list[tuple[str, str]]:
    """Pairs of a query that asks for a comparison."""
    pairs = [(key, value) for key, value in (("base", base), ("target", target)) if value]
    return pairs + [("other", other) for other in others]


def charts(comparison: Mapping[str, Any]) -> dict[str, tuple[str, Chart]]:
    """All charts of a comparison: name → title and chart."""
    named = {"pareto": ("Energy and time", pareto(comparison))}
    for place, pair in enumerate(comparison["comparisons"]):
        named[f"cells-{place}"] = "Where it lies", by_cell(pair)
        named[f"four-{place}"] = "By kind of phase", by_kind(pair)
    return named


def _comparison(
    comparison: Mapping[str, Any], links: Callable[[str], tuple[str, str]]
) -> list[Any]:
    """Verdict first, then where it lies, then all figures."""
    named = charts(comparison)

    def chart_card(name: str) -> Any:
        title, chart = named[name]
        return card(name, title, chart=chart, hrefs=links(name))

    shown: list[Any] = [html.P(what(dict(comparison)), className="soft")]
    shown += [notice(line, "warn") for line in comparison.get("warnings") or []]
    for place, part in enumerate(parts(dict(comparison))):
        kind = str(comparison["comparisons"][place]["verdict"]).replace(" ", "-")
        cards = [chart_card(f"cells-{place}"), chart_card(f"four-{place}")]
        shown += [
            html.H2(part.heading),
            html.P(part.verdict, className=f"verdict {kind}"),
            *(_figures(table_) for table_ in part.tables if not table_.title),
            html.Ul([html.Li(line) for line in part.remarks], className="soft"),
            html.Div(cards, className="cards"),
            *(
                html.Details([html.Summary(f"{heading}: figures"), _figures(table_)])
                for table_ in part.tables
                if (heading := f"{table_.title[:1].upper()}{table_.title[1:]}")
            ),
        ]
    return [*shown, html.Div([chart_card("pareto")], className="cards")]


def _figures(figures: Table) -> Any:
    return table(
        figures.head,
        figures.rows,
        caption=figures.title or "Totals",
        numbers=[i for i in range(len(figures.head)) if i not in figures.text],
    )


def _choices(context: AppContext, asked: Sequence[str]) -> list[dict[str, str]]:
    """Names with the number of their runs, then single runs, then what was asked for."""
    rows = [row for row in context.library.rows() if not row["problem"]]
    counts = Counter(row["name"] for row in rows if row["name"] and not row.get("trainings"))
    choices = [
        {"value": name, "label": f"{name} ({count} run{'s' if count > 1 else ''})"}
        for name, count in counts.items()
    ]
    ids = [
        each["id"]
        for row in rows
        for each in row.get("trainings") or [row]
        if each["id"] not in counts
    ]
    choices += [{"value": run_id, "label": run_id} for run_id in ids]
    choices = choices[:_MAX_CHOICES]
    offered = {choice["value"] for choice in choices}
    return choices + [
        {"value": text, "label": text}
        for text in dict.fromkeys(asked)
        if text and text not in offered
    ]


def _options(choices: Sequence[Mapping[str, str]], chosen: Sequence[str]) -> list[Any]:
    return [
        html.Option(
            choice["label"],
            value=choice["value"],
            selected="selected" if choice["value"] in chosen else None,
        )
        for choice in choices
    ]


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
    comparison = context.comparisons.compare(base, request.args.getlist("other"), target)
    title, chart = charts(comparison)[name]
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
    tables={"gains/<name>": _comparison_table, "ablation/<folder>": _ablation_table},
)
