"""A row of the table of runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dash import dcc, html

from probe.report.numbers import duration, energy, number
from probe.simulated_card import WORD
from probe.store.catalogue import RunSummary
from probe.store.run_fields import PowerFields

from .. import urls
from ..components import badge, sparkline
from ..context import AppContext

_AFTER_STATUS = 6  # columns


def run_row(context: AppContext, row: RunSummary) -> Any:
    """A row of the table; one that cannot be read has the reason."""
    private = row["status"] == "private"
    name = str(row["name"] or row["id"])
    title = html.Td(name if private else [_link(context, row, name), html.Small(str(row["id"]))])
    if row["problem"]:
        cells = [
            title,
            html.Td(badge(str(row["status"]))),
            html.Td(str(row["problem"])[:200], colSpan=_AFTER_STATUS),
        ]
        return html.Tr(cells, className="soft" if private else "bad")
    joules, model = joules_of(row)
    each, unit = each_of(row)
    power: PowerFields = row["power"] or {}
    live = row["status"] == "running"
    watts = row.get("power_w")
    classes = {"live": live, "training": "/" in row["id"]}
    return html.Tr(
        [
            title,
            html.Td(badge(str(row["status"]))),
            html.Td(_begun(row["started"])),
            html.Td(
                "" if row["duration_s"] is None else duration(row["duration_s"]), className="n"
            ),
            html.Td("" if row["steps"] is None else str(row["steps"]), className="n"),
            html.Td(
                [_shown(row, joules), html.Small(_about(row, joules, model=model))],
                className="n modelled" if model else "n",
            ),
            html.Td(
                "" if each is None else [energy(each), html.Small(unit)],
                className="n modelled" if model else "n",
            ),
            html.Td(
                f"{number(watts)} W now"
                if live and watts is not None
                else sparkline(
                    power.get("power_w") or [], modelled=power.get("provenance") == "modelled"
                )
            ),
        ],
        className=" ".join(word for word, holds in classes.items() if holds),
    )


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


def _link(context: AppContext, row: RunSummary, name: str) -> Any:
    return dcc.Link(name, href=context.href(urls.run(str(row["id"]))), className="name")


def joules_of(row: RunSummary) -> tuple[float | None, bool]:
    """What a run used, J, and whether a model says so."""
    measured_j = row["energy_j"]
    return (row["modelled_energy_j"], True) if measured_j is None else (measured_j, False)


def each_of(row: RunSummary) -> tuple[float | None, str]:
    """J per sample or per token, and which."""
    joules, _ = joules_of(row)
    for count, unit in ((row["samples"], "per sample"), (row["tokens"], "per token")):
        if joules is not None and count:
            return joules / count, unit
    return None, ""


def _begun(text: Any) -> str:
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return ""
