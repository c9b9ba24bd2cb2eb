"""A field of run.json that has another kind of value than ours."""

from __future__ import annotations

import math
from typing import Any

import pytest

from probe.store.field_kinds import wrong_field

GOOD: dict[str, Any] = {
    "schema": 1,
    "id": "20261124-130721-base-0",
    "status": "finished",
    "started": "2026-11-24T13:07:21.273099+00:00",
    "anchor": {"monotonic_ns": 1, "wall_ns": 2},
    "begin_ns": 1,
    "end_ns": 3,
    "edges_lost": 0,
    "absent": [{"sensor": "rapl", "what": "rapl", "reason": "none here", "remedy": None}],
    "carbon": {"g_per_kwh": 475.0, "country": None, "label": "world", "source": "IEA"},
    "recorder": {"pid": 1, "start_ticks": 2, "epoch": 1, "cpu_s": 0.5, "wall_s": 2},
    "overhead": {"share_of_step": None, "method": "", "records": 4},
    "machine": {"os": "Linux", "versions": {"numpy": "2"}},
    "logged": {"loss": math.nan},  # as older versions wrote it
    "config": {"lr": 0.1},
}


def test_ours_are_sound() -> None:
    assert wrong_field(GOOD) is None
    assert wrong_field(GOOD | {"carbon": None, "absent": [], "overhead": None}) is None
    assert wrong_field(GOOD | {"carbon": {}, "new": [1, "of a later version"]}) is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("started", [None, 5, "x", [[1]]]),
        ("anchor", [None, {}, {"monotonic_ns": 1, "wall_ns": None}]),
        ("edges_lost", [[[1]], "x", math.nan, -1]),
        ("absent", ["x", 1e308, [[1]], [-1], [{"what": 5}]]),
        ("carbon", [5, math.nan, {"a": [None]}, *({"g_per_kwh": g} for g in ("x", [], {}, 1e308))]),
        ("recorder", [{"pid": 0.5}, {"cpu_s": "x"}, {"wall_s": None}]),
        ("overhead", [5, {"share_of_step": "x"}]),
        ("machine", [5, {"memory_bytes": math.inf}]),
        ("config", [math.nan, {"a": [math.nan]}]),
    ],
)
def test_anything_else_is_named(name: str, values: list[Any]) -> None:
    assert {wrong_field(GOOD | {name: value}) for value in values} == {name}
