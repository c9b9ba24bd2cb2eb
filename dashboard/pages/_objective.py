"""The objective on the page of gains: what is asked for, its chart, its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import dcc, html

from probe.compare.objective.model import Limit, ObjectiveReport
from probe.compare.objective.quantities import (
    COSTS,
    GRADIENT_NORM,
    GRADIENT_VARIANCE,
    label,
    limit_of,
    weights_of,
)
from probe.compare.objective.text import answer, tables

from ..chart_data import Chart
from ..components import card, notice, table
from ..figures.pareto import pareto

FIELDS = ("weights", "max", "min", "x", "y")  # of the form, the query and the store
AXES = (*COSTS, GRADIENT_NORM, GRADIENT_VARIANCE)
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks of the objective, unchecked."""

    weights: str = ""
    max: str = ""
    min: str = ""
    x: str = ""
    y: str = ""

    @classmethod
    def of(cls, address: Mapping[str, object]) -> Asked:
        """From a query or what a browser sent; what is no text counts as empty."""
        values = {name: address.get(name) for name in FIELDS}
        return cls(**{k: v[:_LONGEST] if isinstance(v, str) else "" for k, v in values.items()})

    def query(self) -> list[tuple[str, str]]:
        """Pairs of a query that asks for the same."""
        return [(name, value) for name in FIELDS if (value := str(getattr(self, name)))]

    def parsed(self) -> tuple[dict[str, float] | None, list[Limit]]:
        """Weights (None: the usual ones) and constraints. Raises UsageError."""
        return (
            weights_of(self.weights) if self.weights.strip() else None,
            [
                limit_of(part, upper=upper)
                for text, upper in ((self.max, True), (self.min, False))
                for part in text.split(",")
                if part.strip()
            ],
        )

    def chart(self, report: ObjectiveReport) -> Chart:
        """The Pareto chart with the axes that were chosen, else energy (or memory) over time."""
        metered = any(
            (term := each.term("energy")) is not None and term.value is not None
            for each in report.configurations
        )
        quantities = {term.quantity for each in report.configurations for term in each.terms}
        x = self.x if self.x in quantities else "time"
        y = self.y if self.y in quantities else "energy" if metered else "memory"
        return pareto(report, x, y)

    def axes(self) -> list[str]:
        """What an axis may be: a cost, the gradient, or a metric with a constraint."""
        parts = [*self.max.split(","), *self.min.split(","), self.x, self.y]
        named = [part.partition("=")[0].strip() for part in parts]
        return [*dict.fromkeys([*AXES, *(name for name in named if name)])]


def fields(asked: Asked) -> Any:
    """The part of the form that asks for the objective; folded until something is asked for."""
    texts = (
        ("weights", "weights, like time=1,memory=0.5 (may be empty)"),
        ("max", "at most, like loss=2.5,memory=6GiB"),
        ("min", "at least, like accuracy=0.8"),
    )
    return html.Details(
        [
            html.Summary("Objective: weights, constraints, axes"),
            html.Div(
                [
                    *(
                        html.Div(
                            [
                                html.Label(words, htmlFor=f"objective-{name}"),
                                dcc.Input(
                                    id=f"objective-{name}",
                                    name=name,
                                    value=str(getattr(asked, name)),
                                    type="text",
                                    maxLength=_LONGEST,
                                ),
                            ]
                        )
                        for name, words in texts
                    ),
                    _axis("x", "across", asked),
                    _axis("y", "up", asked),
                ],
                className="form",
            ),
        ],
        open=bool(asked.query()),
    )


def shown(report: ObjectiveReport, asked: Asked, hrefs: tuple[str, str]) -> list[Any]:
    """The answer, the chart, its tables beneath."""
    sentence = answer(report)
    return [
        html.H2(f"Objective: {sentence}"),
        *(notice(line, "warn") for line in report.warnings),
        html.Div(
            [card("pareto", "Pareto front", chart=asked.chart(report), wide=True, hrefs=hrefs)],
            className="cards",
        ),
        *_tables(report),
        html.P(f"{report.method}.", className="soft"),
    ]


def _axis(name: str, words: str, asked: Asked) -> Any:
    chosen = getattr(asked, name)
    options = [html.Option("usual", value="")]
    options += [
        html.Option(label(quantity), value=quantity, selected="selected" if quantity == chosen
                    else None)
        for quantity in asked.axes()
    ]  # fmt: skip
    return html.Div(
        [
            html.Label(words, htmlFor=f"objective-{name}"),
            html.Select(options, id=f"objective-{name}", name=name),
        ]
    )


def _tables(report: ObjectiveReport) -> Sequence[Any]:
    drawn = []
    for place, figures in enumerate(tables(report)):
        title = figures.title[:1].upper() + figures.title[1:]
        numbers = [i for i in range(len(figures.head)) if i not in figures.text]
        body = table(figures.head, figures.rows, caption=figures.title, numbers=numbers)
        if place == 0:
            drawn += [html.H3(title), body]
        else:
            drawn.append(html.Details([html.Summary(title), body]))
    return drawn
