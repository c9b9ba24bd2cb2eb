"""What a real card must show: a plausible response, and the powers of loads that are known.

The loads and their true powers are those of the stages of `make gpu` (benchmarks/gpu/stages.py),
for seconds here. Clocks and temperature drift between the run that gives the truth and the run
that is judged, so intervals are 5 % wider here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import stages
from benchmarks.gpu.cards import Card, cuda_card
from probe.cli.commands.doctor import examine
from probe.errors import NothingToReport

DRIFT = 0.05


pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def card() -> Card:
    try:
        return cuda_card()
    except NothingToReport as error:
        pytest.skip(str(error))


def assert_powers(rows: Sequence[dict[str, Any]], true_w: dict[str, float]) -> int:
    """Every resolved interval holds the true power; returns how many phases are resolved."""
    resolved = 0
    for row in rows:
        if row["phase"] in true_w and row["status"] == "resolved":
            resolved += 1
            low, high = (joules / row["time_s"] for joules in row["energy_j_interval"])
            true = true_w[row["phase"]]
            assert low - DRIFT * true <= true <= high + DRIFT * true, (row, true_w)
    return resolved


def test_the_card_has_a_meter_that_counts() -> None:
    sensors = [sensor for sensor in examine().sensors if sensor.sensor.startswith("nvml")]
    assert any(source.in_total for sensor in sensors for source in sensor.sources)


def test_calibration_is_plausible(card: Card, tmp_path: Path) -> None:
    calibration = stages.calibration(card, stages.SHORT, tmp_path)
    assert 0.005 < calibration["counter_period_s"] < 1.0
    assert 0 <= calibration["lag_s"] < 0.04 and calibration["lag_error_s"] < 0.01


def test_a_mixture_of_known_loads(card: Card, tmp_path: Path) -> None:
    result = stages.loads(card, stages.SHORT, tmp_path)
    assert assert_powers(result["mixed"], result["burst_w"]) >= 2


def test_a_forward_that_runs_once_and_twice(card: Card, tmp_path: Path) -> None:
    """Where a burst's power depends on the wait before it, all phases may be refused."""
    result = stages.forward_twice(card, stages.SHORT, tmp_path)
    for rows in (result["once"], result["twice"]):
        assert_powers(rows, result["from_totals_w"])
