from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from probe.compare.statistics import Contrast, holm, paired, unpaired


def test_blocks_are_students_t() -> None:
    rng = np.random.default_rng(0)
    base, other = rng.normal(10, 1, 6), rng.normal(9, 1, 6)
    tested = paired((base - other)[:, None])
    expected = stats.ttest_rel(base, other)
    assert tested.p_values()[0] == pytest.approx(expected.pvalue, rel=1e-12)
    low, high = expected.confidence_interval()
    assert tested.value[0] - tested.half()[0] == pytest.approx(low, rel=1e-12)
    assert tested.value[0] + tested.half()[0] == pytest.approx(high, rel=1e-12)


def test_groups_are_welchs_t() -> None:
    rng = np.random.default_rng(1)
    base, other = rng.normal(10, 1, 4), rng.normal(9, 3, 7)
    tested = unpaired(lambda i, j: np.array([base[i] - other[j]]), 4, 7)
    expected = stats.ttest_ind(base, other, equal_var=False)
    assert tested.p_values()[0] == pytest.approx(expected.pvalue, rel=1e-9)
    low, high = expected.confidence_interval()
    assert tested.value[0] - tested.half()[0] == pytest.approx(low, rel=1e-9)
    assert tested.value[0] + tested.half()[0] == pytest.approx(high, rel=1e-9)


def test_a_product_of_two_groups_has_the_error_that_resampling_shows() -> None:
    """Progress is (S_b − S_o)(c_b + c_o)/2: no plain difference, so Welch does not apply."""
    rng = np.random.default_rng(2)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(100, 8, n), rng.normal(5, 0.3, n)

    def mean(n: int) -> Contrast:
        (s_b, c_b), (s_o, c_o) = draw(n), draw(n)
        return unpaired(lambda i, j: np.array([(s_b[i] - s_o[j]) * (c_b[i] + c_o[j]) / 2]), n, n)

    many = [mean(20) for _ in range(400)]
    spread = np.std([each.value[0] for each in many])
    assert np.mean([each.errors()[0] for each in many]) == pytest.approx(spread, rel=0.1)


def test_one_run_a_side_says_nothing() -> None:
    tested = paired(np.array([[5.0, 1.0]]))
    assert tested.half().tolist() == [math.inf, math.inf]
    assert tested.p_values().tolist() == [1.0, 1.0]
    assert tested.ratio(1, 0) is None
    lonely = unpaired(lambda i, j: np.array([float(i)]), 4, 1)
    assert lonely.p_values().tolist() == [1.0]


def test_what_never_varies() -> None:
    same = paired(np.array([[0.1 + 0.2 - 0.3, 7.0]] * 3))  # 5.6e-17: rounding, no difference
    assert same.p_values()[1] == 0.0
    exact = paired(np.zeros((3, 1)))
    assert exact.p_values().tolist() == [1.0]


def test_fieller_holds_the_ratio() -> None:
    rng = np.random.default_rng(3)
    hits, wide = 0, []
    for _ in range(1500):
        x, y = rng.normal(3, 1, 5), rng.normal(10, 1, 5)
        limits = paired(np.stack([x, x + y], axis=1)).ratio(0, 1)
        assert limits is not None
        hits += limits[0] <= 3 / 13 <= limits[1]
        wide.append(limits[1] - limits[0])
    assert 0.935 <= hits / 1500 <= 0.965
    assert np.median(wide) < 0.2


def test_fieller_is_not_bounded_where_the_divisor_may_be_zero() -> None:
    rng = np.random.default_rng(4)
    assert paired(rng.normal(0, 1, (4, 2))).ratio(0, 1) is None


def test_holms_own_order() -> None:
    # 0.01·4, 0.013·3, 0.04·2, 0.2, never falling.
    assert holm([0.04, 0.01, 0.2, 0.013]).tolist() == pytest.approx([0.08, 0.04, 0.2, 0.04])
    assert holm([]).tolist() == []
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]


def test_bootstrap_from_ten_blocks_on() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(1, 1, (10, 1))
    resampled = paired(values).bootstrap(0)
    assert resampled is not None and resampled[0] < values.mean() < resampled[1]
    assert paired(values).bootstrap(0) == resampled  # the same every time
    assert paired(values[:9]).bootstrap(0) is None
