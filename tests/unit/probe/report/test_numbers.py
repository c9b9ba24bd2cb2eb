"""Numbers are printed with the digits they deserve."""

from __future__ import annotations

import pytest

from probe.report.numbers import duration, energy, interval, number


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


def test_interval_shares_its_digits() -> None:
    assert interval(90.4, 110.2) == "90 … 110"
