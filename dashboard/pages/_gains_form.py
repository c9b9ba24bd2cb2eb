"""Which runs are compared: fields that propose names and runs as one types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dash import dcc, html

from ..context import AppContext

_MAX_CHOICES = 2000
_LONGEST = 2000  # characters: ids of many runs with commas
_BASE, _OTHER, _CHOICES = "base", "other", "runs-to-compare"  # ids


def choices(context: AppContext) -> dict[str, str]:
    """What is proposed and what it is: names of finished runs, then single ones, newest first."""
    rows = [
        row
        for row in context.library.rows()
        if row["status"] == "finished" and not row.get("trainings")
    ]
    names = Counter(row["name"] for row in rows)  # a name means its archived runs, too
    rows = [row for row in rows if not row["archived"]]
    proposed = {
        name: f"{names[name]} run" + ("s" if names[name] > 1 else "")
        for name in dict.fromkeys(row["name"] for row in rows)
        if name
    }
    for row in rows:
        proposed.setdefault(row["id"], f"one run, {(row['started'] or '')[:16].replace('T', ' ')}")
    return dict(list(proposed.items())[:_MAX_CHOICES])


def sides(proposed: Mapping[str, str], base: str, others: Sequence[str]) -> list[Any]:
    """The fields of a form: the base, each other side, and an empty one for one more."""
    fields = [_field("base: before the change", _BASE, "base", base)]
    for number, other in enumerate([*others, ""]):
        label = "compared with" if number == 0 else "and with (may be empty)"
        fields.append(_field(label, f"{_OTHER}-{number}", "other", other))
    options = [html.Option(label, value=value) for value, label in proposed.items()]
    return [*fields, html.Datalist(options, id=_CHOICES)]


def _field(label: str, id_: str, name: str, value: str) -> Any:
    return html.Div(
        [
            html.Label(label, htmlFor=id_),
            dcc.Input(
                id=id_,
                name=name,
                value=value,
                type="text",
                list=_CHOICES,
                maxLength=_LONGEST,
                autoComplete="off",
                placeholder="a name, or ids with commas",
            ),
        ]
    )
