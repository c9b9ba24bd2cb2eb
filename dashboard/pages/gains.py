"""Did it pay, and in which phase: runs compared with runs, techniques one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import Dash, Input, Output, dcc, html
from flask import request

from probe.compare.statistics import FEWEST_RUNS
from probe.errors import ProbeError

from ..components import card, notice, shell, trouble
from ..context import AppContext, app_context
from ..figures.ablation import by_technique
from ..page import Address, ChartTable, Page
from ..urls import Selection
from . import _comparison, _gains_form, _objective
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
    results = "results expected" if base and others else "results"
    return shell(
        form,
        dcc.Store(
            id=_ASKED,
            data={"base": base, "others": others, "target": target}
            | {key: _text(address.get(key)) for key in ("v", "x")}
            | dict(asked.query()),
        ),
        *(
            dcc.Loading(html.Div(id=name, className=results), type="dot", delay_show=300)
            for name in (_COMPARISON, _OBJECTIVE)
        ),
        *_ablations(context),
        title="Compare",
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
        context = app_context()
        return _or_trouble(
            lambda: _comparison.shown(context, base, others, target, Selection.of(asked))
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
            "gains", "pareto", asked=_comparison.query(base, others, target) + of.query()
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
    title, chart = _comparison.chart(context, base, others, target, name, request.args)
    return ChartTable(title, f"gains-{name}", chart)


def _ablation_table(context: AppContext, folder: str) -> ChartTable:
    for ablation in context.comparisons.ablations():
        if ablation["folder"] == folder:
            title = f"Ablation in {folder}"
            return ChartTable(title, f"ablation-{folder}", by_technique(ablation))
    raise KeyError(folder)


PAGE = Page(
    path=_PATH,
    title="Compare · phasewatt",
    layout=_layout,
    callbacks=_callbacks,
    navigation=(2, "Compare"),
    stills={"gains": _comparison.still},
    tables={"gains/<name>": _comparison_table, "ablation/<folder>": _ablation_table},
)
