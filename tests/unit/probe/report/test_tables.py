"""Percentages as people write them."""

from __future__ import annotations

import pytest

from probe.report.text_tables import percent


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, ""),
        (0.0, "0 %"),
        (9.381, "9.38 %"),
        (-55.72, "−55.7 %"),
        (1650.4, "1650 %"),
        (-1_234_567.0, "−1230000 %"),
        (0.0614, "0.0614 %"),
        (-0.00002, "under 0.001 %"),
    ],
)
def test_three_digits_and_no_powers_of_ten(value: float | None, said: str) -> None:
    assert percent(value) == said
