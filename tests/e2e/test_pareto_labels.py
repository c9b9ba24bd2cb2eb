"""The Pareto chart of random configurations in a browser: no text on another, none cut."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from dashboard.figures.pareto import pareto
from probe.compare.objective.model import Configuration, Limit, ObjectiveReport, Place, Term

from .page_checks import CUT, OVERLAPS

ASSETS = Path(__file__).parents[2] / "dashboard" / "assets"
FIGURES = 60
NAMES = (
    "plain",
    "faster",
    "a",
    "bs=64,lr=0.1",
    "BF16-ADAMW",
    "gradient accumulation x4",
    "混合精度训练",
)
UNITS = {"time": "s", "energy": "J", "memory": "B", "loss": ""}
AXES = (("time", "energy"), ("time", "memory"), ("memory", "energy"), ("time", "loss"))
DRAW = """async (figure) => {
  document.getElementById("room").style.height = figure.layout.height + "px";
  await Plotly.newPlot("chart", figure.data, figure.layout, {displayModeBar: false});
}"""


def random_report(seed: int) -> ObjectiveReport:
    """Two to six configurations, near each other or far apart, with intervals and limits."""
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    values: dict[str, list[float]] = {}
    for quantity in UNITS:
        base, spread = 10 ** rng.uniform(0, 10), 10 ** rng.uniform(-3.5, 0.2)
        values[quantity] = [base * (1 + spread * rng.random()) for _ in range(count)]
    limits = [
        Limit(quantity, rng.choice(("at most", "at least")), rng.choice(column))
        for quantity, column in values.items()
        if rng.random() < 0.3
    ]
    configurations = []
    for place, name in enumerate(rng.sample(NAMES, count)):
        terms = []
        for quantity, unit in UNITS.items():
            value = values[quantity][place]
            half = value * 10 ** rng.uniform(-4, 0)
            interval = (value - half, value + half) if rng.random() < 0.5 else None
            terms.append(Term(quantity, unit, value, interval))
        configurations.append(
            Configuration(
                name=name,
                ids=["run"],
                terms=terms,
                modelled_energy_j=None,
                score=None,
                score_interval=None,
                reason="",
                constraints=(),
                place=Place.FRONT,
            )
        )
    return ObjectiveReport(
        base=configurations[0].name,
        weights={"time": 1.0},
        limits=limits,
        front=("time", "memory", "energy"),
        target=None,
        work="samples",
        configurations=configurations,
        lowest=None,
    )


@pytest.mark.parametrize("width", [pytest.param(360, marks=pytest.mark.full), 1280])
def test_no_text_of_a_pareto_chart_is_on_another_or_cut(
    width: int, browser: Any, tmp_path: Path
) -> None:
    page_file = tmp_path / "chart.html"
    page_file.write_text(
        "<!doctype html><meta charset='utf-8'>"
        f"<link rel='stylesheet' href='{(ASSETS / 'style.css').as_uri()}'>"
        "<main class='wide'><div class='cards'><section class='card wide'><div id='room'>"
        "<div id='chart' style='height:100%'></div></div></section></div></main>"
        f"<script src='{(ASSETS / 'plotly-cartesian.min.js').as_uri()}'></script>",
        encoding="utf-8",
    )
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(page_file.as_uri())
    wrong = {}
    labels = 0
    for seed in range(FIGURES):
        figure = json.loads(json.dumps(pareto(random_report(seed), *AXES[seed % len(AXES)]).figure))
        page.evaluate(DRAW, figure)
        labels += page.locator(".textpoint text").count()
        if texts := page.evaluate(OVERLAPS) + page.evaluate(CUT):
            wrong[seed] = texts
    page.close()
    assert wrong == {}
    assert labels > 2 * FIGURES  # most names are shown
