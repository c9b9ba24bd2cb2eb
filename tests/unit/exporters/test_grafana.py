"""The dashboard that is shipped is the one that the SDK builds, and Grafana's schema reads it."""

from __future__ import annotations

import json
import re

from grafana_foundation_sdk.models.dashboard import Dashboard

from exporters.grafana import READY
from exporters.grafana.build import GRAPHS, dashboard
from tests.fakes.grafana_queries import queries

CONTENT = json.loads(READY.read_text(encoding="utf-8"))


def test_it_is_what_the_sdk_builds() -> None:
    assert dashboard() == CONTENT, "run python -m exporters.grafana.build"


def test_the_schema_reads_it_and_everything_is_asked_of_the_chosen_runs() -> None:
    read = Dashboard.from_json(CONTENT)
    assert read.title == "phasewatt"
    assert len(queries()) == sum(
        len(graph.queries) for graphs in GRAPHS.values() for graph in graphs
    )
    for expression in queries():
        metrics = re.findall(r"phasewatt_[a-z_]+", expression)
        assert metrics and expression.count('{run=~"$run"}') == len(metrics)
    assert {v["name"] for v in CONTENT["templating"]["list"]} == {"datasource", "run"}


def test_panels_lie_side_by_side() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in CONTENT["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells
