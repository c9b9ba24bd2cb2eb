"""Carbon intensity by country, from data on disk."""

from __future__ import annotations

import pytest

from probe.errors import UsageError
from probe.sensors._carbon import carbon_intensity


def test_without_a_country_it_is_the_world_average_and_says_so() -> None:
    carbon = carbon_intensity(None)
    assert carbon.country_iso is None
    assert "world average" in carbon.label
    assert 300 < carbon.g_per_kwh < 700


def test_countries_differ() -> None:
    france, poland = carbon_intensity("FRA"), carbon_intensity("pol")
    assert france.country_iso == "FRA"
    assert "France" in france.label
    assert france.g_per_kwh < 100 < 400 < poland.g_per_kwh


def test_an_unknown_country_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match="'FRA'"):
        carbon_intensity("XXX")
