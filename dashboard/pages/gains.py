"""Did it pay: runs against runs, techniques one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, dcc, html

from probe.compare.formats import parts, what
from probe.errors import ProbeError
from probe.report.text_tables import Table

from .. import ids, urls
from ..chart_data import Chart
from ..components import card, notice, shell, table, trouble
from ..context import Desk, desk
from ..figures import gains as views

TITLE = "Gains"
_ASKED = "gains-asked"
_MOST_CHOICES = 2000


def layout(base: str = "", other: str | list[str] = "", target: str = "", **_: Any) -> Any:
    """The page for ``?base=plain&other=paper&other=amp&target=loss<=2.5``."""
    of = desk()
    others = [other] if isinstance(other, str) else list(other)
    others = [one for one in others if isinstance(one, str) and one]
    base, target = (one if isinstance(one, str) else "" for one in (base, target))
    choices = _choices(of, [base, *others])
    form = html.Form(
        [
            html.Div(
                [
                    html.Label("base: what you had", htmlFor=ids.BASE),
                    html.Select(
                        [html.Option("", value=""), *_options(choices, [base])],
                        id=ids.BASE,
                        name="base",
                    ),
                ]
            ),
            html.Div(
                [
                    html.Label(
                        "held against it: what you changed (Ctrl for several)", htmlFor=ids.OTHERS
                    ),
                    html.Select(
                        _options(choices, others),
                        id=ids.OTHERS,
                        name="other",
                        multiple=True,
                        size=str(min(5, max(2, len(choices)))),
                    ),
                ]
            ),
            html.Div(
                [
                    html.Label("until a target, like loss<=2.5 (may be empty)", htmlFor=ids.TARGET),
                    dcc.Input(
                        id=ids.TARGET, name="target", value=target, type="text", maxLength=100
                    ),
                ]
            ),
            html.Button("Compare", type="submit"),
        ],
        className="form",
        method="get",
        action=of.href(urls.GAINS),
    )
    asked = {"base": base, "others": others, "target": target}
    return shell(
        form,
        dcc.Store(id=_ASKED, data=asked),
        dcc.Loading(html.Div(id=ids.COMPARISON, className="results"), type="dot", delay_show=300),
        *_ablations(of),
        title=TITLE,
        wide=True,
    )


def register(app: Dash) -> None:
    """The form makes an address; the address makes the comparison."""

    @app.callback(Output(ids.COMPARISON, "children"), Input(_ASKED, "data"))
    def compared(asked: Any) -> Any:
        asked = asked if isinstance(asked, dict) else {}
        base, target = str(asked.get("base") or ""), str(asked.get("target") or "")
        others = asked.get("others")
        others = [str(one) for one in others] if isinstance(others, list) else []
        if not base or not others:
            return notice(
                "Choose a base and what to hold against it. A name stands for all runs "
                "so named: three or more of each make a verdict possible."
            )
        try:
            return comparison(
                desk().comparisons.compare(base, others, target),
                lambda view: _links(base, others, target, view),
            )
        except (ProbeError, OSError) as error:
            return trouble(error)
        except Exception as error:
            return trouble(
                f"This cannot be compared: {type(error).__name__}. A run may be damaged."
            )


def _links(base: str, others: Sequence[str], target: str, view: str) -> tuple[str, str]:
    href = desk().href
    table_, csv = (
        href(urls.gains_data(kind, view, base, others, target)) for kind in (urls.TABLE, urls.CSV)
    )
    return table_, csv


def charts(found: Mapping[str, Any]) -> dict[str, tuple[str, Chart]]:
    """All charts of a comparison: name → title and chart."""
    made = {"pareto": ("Energy and time", views.pareto(found))}
    for place, one in enumerate(found["comparisons"]):
        made[f"cells-{place}"] = "Where it lies", views.by_cell(one)
        made[f"four-{place}"] = "By kind of phase", views.four(one)
    return made


def comparison(found: Mapping[str, Any], links: Callable[[str], tuple[str, str]]) -> list[Any]:
    """Verdict first, then where it lies, then all figures."""
    made = charts(found)

    def shown_as(name: str) -> Any:
        return card(name, made[name][0], chart=made[name][1], hrefs=links(name))

    shown: list[Any] = [html.P(what(dict(found)), className="soft")]
    shown += [notice(line, "warn") for line in found.get("warnings") or []]
    for place, part in enumerate(parts(dict(found))):
        kind = str(found["comparisons"][place]["verdict"]).replace(" ", "-")
        shown += [
            html.H2(part.heading),
            html.P(part.verdict, className=f"verdict {kind}"),
            *(_figures(one) for one in part.tables if not one.title),
            html.Ul([html.Li(line) for line in part.remarks], className="soft"),
            html.Div([shown_as(f"cells-{place}"), shown_as(f"four-{place}")], className="cards"),
            *(
                html.Details(
                    [
                        html.Summary(f"{one.title[:1].upper()}{one.title[1:]}: figures"),
                        _figures(one),
                    ]
                )
                for one in part.tables
                if one.title
            ),
        ]
    return [*shown, html.Div([shown_as("pareto")], className="cards")]


def _figures(one: Table) -> Any:
    return table(
        one.head,
        one.rows,
        caption=one.title or "Totals",
        numbers=[i for i in range(len(one.head)) if i not in one.text],
    )


def _choices(of: Desk, asked: Sequence[str]) -> list[dict[str, str]]:
    """Names with the number of their runs, then single runs."""
    rows = [row for row in of.library.rows() if not row["problem"]]
    names: dict[str, int] = {}
    for row in rows:
        if row["name"]:
            names[row["name"]] = names.get(row["name"], 0) + 1
    found = [
        {"value": name, "label": f"{name} ({count} run{'s' if count > 1 else ''})"}
        for name, count in names.items()
    ]
    found += [{"value": row["id"], "label": row["id"]} for row in rows if row["id"] not in names]
    found = found[:_MOST_CHOICES]
    known = {one["value"] for one in found}
    return found + [
        {"value": one, "label": one} for one in dict.fromkeys(asked) if one and one not in known
    ]


def _options(choices: Sequence[Mapping[str, str]], chosen: Sequence[str]) -> list[Any]:
    return [
        html.Option(
            one["label"],
            value=one["value"],
            selected="selected" if one["value"] in chosen else None,
        )
        for one in choices
    ]


def _ablations(of: Desk) -> list[Any]:
    shown: list[Any] = []
    for place, found in enumerate(of.comparisons.ablations()):
        try:
            chart = views.by_technique(found)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            shown.append(
                trouble(
                    f"The ablation in {found['folder']} was made by another version "
                    "and cannot be shown: run `probe ablate` there again."
                )
            )
            continue
        shown.append(
            html.Div(
                [
                    card(
                        f"ablation-{place}",
                        f"Ablation in {found['folder']}: {found['design']}, "
                        f"{found.get('blocks')} blocks",
                        chart=chart,
                        wide=True,
                        hrefs=(
                            of.href(urls.ablation_data(urls.TABLE, found["folder"])),
                            of.href(urls.ablation_data(urls.CSV, found["folder"])),
                        ),
                    )
                ],
                className="cards",
            )
        )
    return [html.H2("Technique by technique"), *shown] if shown else []
