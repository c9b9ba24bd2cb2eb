"""Numbers are printed with the digits they deserve."""

from __future__ import annotations

import pytest

from probe.report.numbers import (
    duration,
    energy,
    energy_range,
    energy_with_error,
    interval,
    number,
    scaled,
    unbroken,
)


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (1000.04, 25.0, "1000"),
        (1003.7, 0.2, "1003.7"),
        (123.456, None, "123"),
        (0.0012345, None, "0.00123"),
        (12345.6, 400, "12300"),
        (5.0, 100.0, "5"),
        (None, None, "—"),
        (0.0, 3.0, "0"),
        (-12.34, 0.5, "-12.3"),
    ],
)
def test_number(value: float | None, half: float | None, text: str) -> None:
    assert number(value, half) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (83e-6, "83 µs"),
        (0.0123, "12.3 ms"),
        (4.21, "4.21 s"),
        (125, "2 min 05 s"),
        (11520, "3 h 12 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_energy_changes_unit() -> None:
    assert energy(950.0) == "950 J"
    assert energy(25_000.0) == "25.0 kJ"
    assert energy(7.2e6) == "2.00 kWh"
    assert energy(None) == "—"


def test_energy_below_a_joule_is_in_millijoules() -> None:
    assert energy(0.0425) == "42.5 mJ" and energy(-0.0425) == "-42.5 mJ"
    assert energy(3.1e-5) == "31.0 µJ" and energy(2e-8) == "0.0200 µJ"
    assert energy(0.0) == "0 J"
    assert energy(0.02, 5.0) == "0 J"  # nothing is known of its millijoules
    assert energy(0.0425, 0.003) == "42 mJ"
    assert energy_with_error(0.0425, 0.003) == "42 ± 3 mJ"
    assert energy_range(0.01, 0.04) == "10 … 40 mJ"
    assert unbroken("42 ± 3 mJ") == "42\u00a0±\u00a03\u00a0mJ"


def test_an_axis_has_one_unit_for_all_its_values() -> None:
    assert scaled(0.02) == (1e-3, "m") and scaled(1250.0) == (1e3, "k")
    assert scaled(0.0) == (1.0, "") and scaled(1e-9) == (1e-6, "µ")


def test_interval_shares_its_digits() -> None:
    assert interval(90.4, 110.2) == "90 … 110"
