"""A row of the table of runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dash import dcc, html

from probe.report.numbers import duration, energy, number, share
from probe.simulated_card import WORD
from probe.store.catalogue import RunSummary
from probe.store.catalogue.totals import Worth, cost_of, grams_of, joules_of
from probe.store.run_fields import PowerFields

from .. import urls
from ..components import aria, badge, data, sparkline, tag_link
from ..context import AppContext
from ..figures.style import colour

_AFTER_STATUS = 7  # columns
_LONGEST_NOTE = 160  # characters in the list; the run's page has all


def run_row(context: AppContext, row: RunSummary, worth: Worth | None, currency: str) -> Any:
    """A row of the table; one that cannot be read has the reason."""
    private = row["status"] == "private"
    if row["problem"]:
        name, problem = str(row["name"] or row["id"]), str(row["problem"])[:200]
        title: list[Any] = [name] if private else [_link(context, row, name), _id(row)]
        title.append(html.Small(f"{row['status']}: {problem}", className="narrow"))
        cells = [
            html.Td(""),
            html.Td(title),
            html.Td(badge(str(row["status"])), className="roomy"),
            html.Td(problem, colSpan=_AFTER_STATUS, className="roomy"),
            html.Td("", className="on-narrow"),
        ]
        return html.Tr(cells, className="soft" if private else "bad")
    each, unit = each_of(row)
    _, model = joules_of(row)
    number_class = "n modelled" if model else "n"
    classes = {
        "live": row["status"] == "running",
        "training": "/" in row["id"],
        "archived": row["archived"],
    }
    return html.Tr(
        [
            html.Td(_tick(row), className="tick-cell"),
            html.Td(_title(context, row)),
            html.Td(badge(row["status"]), className="roomy"),
            html.Td(_begun(row)[:16], className="roomy when", title=_begun(row)),
            html.Td(
                "" if row["duration_s"] is None else duration(row["duration_s"]),
                className="n roomy",
            ),
            html.Td("" if row["steps"] is None else str(row["steps"]), className="n roomy"),
            html.Td(_energy(row, worth, currency), className=number_class),
            html.Td(_hungriest(row), className="roomy most"),
            html.Td(
                "" if each is None else [energy(each), html.Small(unit)],
                className=f"{number_class} roomy",
            ),
            html.Td(_power(row), className="roomy"),
        ],
        className=" ".join(word for word, holds in classes.items() if holds),
    )


def _tick(row: RunSummary) -> Any:
    """A box that marks the run, for ``labels.js``; what cannot be compared has none."""
    if row.get("trainings") or "/" in row["id"]:
        return ""
    return html.Button(
        className="tick",
        type="button",
        role="checkbox",
        **aria(checked="false", label=f"mark {row['name'] or row['id']} of {_begun(row)}"),
        **data(
            run=row["id"],
            name=row["name"],
            begun=row["started"] or "",
            finished="yes" if row["status"] == "finished" else "no",
        ),
    )


def _title(context: AppContext, row: RunSummary) -> list[Any]:
    """Name, id, tags and note; on a narrow screen also how it stands and what takes most."""
    name = str(row["name"] or row["id"])
    parts: list[Any] = [_link(context, row, name)]
    if row["tags"] or row["archived"]:
        parts.append(
            html.Span([tag_link(tag, context.href("/")) for tag in row["tags"]], className="tags")
        )
    if row["archived"]:
        parts.append(html.Span("archived", className="badge"))
    parts.append(_id(row))
    takes = row["hungriest"]
    short = [row["status"], _begun(row)[:16]]
    short += [f"{takes['phase']} {share(takes['share'])}"] if takes else []
    parts.append(html.Small([html.Span(part) for part in short], className="narrow"))
    if row["note"]:
        first = row["note"].split("\n", 1)[0]
        cut = first if len(first) <= _LONGEST_NOTE else first[: _LONGEST_NOTE - 1] + "…"
        parts.append(html.Small(cut, className="note"))
    return parts


def _id(row: RunSummary) -> Any:
    return html.Small(row["id"], className="id")


def _energy(row: RunSummary, worth: Worth | None, currency: str) -> list[Any]:
    joules, model = joules_of(row)
    grams, cost = grams_of(row, worth), cost_of(row, worth)
    about = [_about(row, joules, model=model)]
    about += [] if grams is None else [f"{number(grams)} g CO2e"]
    about += [] if cost is None else [f"{number(cost)} {currency}".strip()]
    return [_shown(row, joules), html.Small([html.Span(part) for part in about if part])]


def _shown(row: RunSummary, joules: float | None) -> str:
    word = WORD if row.get("simulated") else "shared" if row.get("shared") else ""
    return word if word and joules is None else energy(joules)


def _about(row: RunSummary, joules: float | None, *, model: bool) -> str:
    """What stands below the joules: whose they are."""
    if row.get("trainings"):
        return f"of {len(row['trainings'])} trainings"
    if row.get("shared"):
        return "in the group's" if joules is None else "and a shared meter's"
    return "modelled" if model and joules is not None else ""


def _hungriest(row: RunSummary) -> Any:
    takes = row["hungriest"]
    if takes is None:
        return ""
    dot = html.Span(className="dot", style={"background": colour(takes["phase"])})
    return [dot, takes["phase"], html.Small(f"{share(takes['share'])} of {takes['of']}")]


def _power(row: RunSummary) -> Any:
    watts, power = row.get("power_w"), row["power"] or PowerFields()
    if row["status"] == "running" and watts is not None:
        return f"{number(watts)} W now"
    modelled = power.get("provenance") == "modelled"
    return sparkline(power.get("power_w") or [], modelled=modelled)


def _link(context: AppContext, row: RunSummary, name: str) -> Any:
    return dcc.Link(name, href=context.href(urls.run(str(row["id"]))), className="name")


def each_of(row: RunSummary) -> tuple[float | None, str]:
    """J per sample or per token, and which."""
    joules, _ = joules_of(row)
    for count, unit in ((row["samples"], "per sample"), (row["tokens"], "per token")):
        if joules is not None and count:
            return joules / count, unit
    return None, ""


def _begun(row: RunSummary) -> str:
    try:
        return (
            datetime.fromisoformat(str(row["started"]))
            .astimezone(UTC)
            .strftime("%Y-%m-%d %H:%M:%S")
        )
    except ValueError:
        return ""
