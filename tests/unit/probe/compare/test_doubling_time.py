from __future__ import annotations

import pytest

from probe.compare.paper.doubling_time import doubling_interval, doubling_months, speed_up


def test_the_papers_figures_and_what_they_are() -> None:
    assert doubling_months(1.26, 5) == pytest.approx(15.0, abs=0.05)  # the paper prints 14.8
    factor = speed_up(100 * (1 - 0.94 * 0.785))[0]
    assert factor == pytest.approx(1.356, abs=0.001)
    assert doubling_months(factor, 5) == pytest.approx(11.4, abs=0.05)


def test_speed_up_with_and_without_recomputation() -> None:
    assert speed_up(50.0, 0.2) == (2.0, 2.5)
    assert speed_up(0.0) == (1.0, 1.0)


def test_what_gets_no_cheaper_never_doubles() -> None:
    assert doubling_months(1.0, 5) is None and doubling_months(0.9, 5) is None
    low, high = doubling_interval([-5.0, 50.0], 5)
    assert low == pytest.approx(5.0) and high is None
