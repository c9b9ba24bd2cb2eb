"""Energy is weighted by when it was used; a bad tariff gets one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from probe.analysis.carbon_and_price import Tariff, Tariffs, tariff
from probe.attribution.meter.energy_curve import EnergyCurve
from probe.clock import Anchor
from probe.errors import UsageError

S = 1_000_000_000
HOUR = 3600 * S
BEGIN_WALL = 1_767_261_600 * S  # 2026-01-01T10:00:00Z
ANCHOR = Anchor(monotonic_ns=5 * S, wall_ns=BEGIN_WALL + 5 * S)
# Two hours from 10:00 on: 1 kW in the first, 3 kW in the second.
CURVE = EnergyCurve(np.array([0, HOUR, 2 * HOUR]), np.array([0.0, 3.6e6, 14.4e6]), 0.0, 1.0)
RUN = (0, 2 * HOUR)


def of(path: Path, what: str = "intensity") -> Tariff:
    return tariff(str(path), what, "g" if what == "intensity" else "")


def test_hours_count_by_what_was_used_in_them(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    path.write_text(
        "Datetime (UTC),Country,Carbon intensity gCO2eq/kWh\n"
        "2026-01-01T11:00:00Z,DE,500\n"  # in any order
        "2026-01-01 10:00:00,DE,100\n"
        "2026-01-01T12:00:00+01:00,DE,500\n"
    )  # 11:00 in UTC, once more
    series = of(path)
    assert series.covers(RUN, ANCHOR)
    assert series.of(CURVE, RUN, ANCHOR) == pytest.approx(1 * 100 + 3 * 500)
    assert series.label == "grid.csv"


def test_a_price_by_the_megawatt_hour_keeps_its_currency(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(
        "time,price [EUR/MWh]\n2026-01-01T09:30:00Z,80\n2026-01-01T10:30:00Z,-20\n"
        "2026-01-01T11:30:00Z,40\n"
    )
    series = of(path, "price")
    assert series.unit == "EUR"
    expected = 0.5 * 0.08 - 0.5 * 0.02 - 1.5 * 0.02 + 1.5 * 0.04
    assert series.of(CURVE, RUN, ANCHOR) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [("0.31", 0.31, ""), ("0.31 EUR", 0.31, "EUR"), ("0.31 usd/kWh", 0.31, "USD")],
)
def test_a_number_holds_at_any_time(text: str, value: float, unit: str) -> None:
    series = tariff(text, "price", "")
    assert series.unit == unit and series.covers(RUN, ANCHOR)
    assert series.of(CURVE, RUN, ANCHOR) == pytest.approx(4 * value)


def test_what_a_file_does_not_cover_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("time,intensity\n2026-01-01T10:00:00Z,100\n2026-01-01T10:30:00Z,100\n")
    assert not of(path).covers(RUN, ANCHOR)  # it ends at eleven
    assert of(path).covers((0, HOUR), ANCHOR)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file"),
        ("", "must name a column of times"),
        ("a,b\n1,2\n", "must name a column of times"),
        ("time,intensity\n2026-01-01,fifty\n", "line 2"),
        ("time,intensity\nyesterday,50\n", "line 2"),
        ("time,intensity\n2026-01-01\n", "line 2"),
        ("time,intensity\n2026-01-01,50\n", "two rows"),
        ("time,intensity\n2026-01-01,50\n2026-01-02,nan\n", "two rows"),
        ("time,north,south\n2026-01-01,50,60\n2026-01-02,1,2\n", "must name"),
        ("time,intensity\n\xff\n", "line 2"),
    ],
)
def test_a_bad_file_gets_one_line(content: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=said) as error:
        of(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["-5", "1e999", "nan", "5 apples", "--"])
def test_no_intensity(text: str) -> None:
    with pytest.raises(UsageError):
        tariff(text, "intensity", "g")


@pytest.mark.parametrize("text", ["-1 EUR", "1e308 EUR", "1e10"])
def test_no_price(text: str) -> None:
    with pytest.raises(UsageError, match="write a number per kWh"):
        tariff(text, "price", "")


def test_the_environment_is_asked_and_the_argument_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_PRICE", "0.2 EUR")
    monkeypatch.setenv("PROBE_INTENSITY", "50")
    tariffs = Tariffs.given(price="0.3 USD")
    assert tariffs.price is not None and tariffs.price.unit == "USD"
    assert tariffs.intensity is not None and tariffs.intensity.value.tolist() == [50.0]
    monkeypatch.setenv("PROBE_INTENSITY", "many")
    (said,) = Tariffs.given().problems  # a report is made all the same
    assert said.startswith("PROBE_INTENSITY: ")
