"""Runs whose steps may be of different sizes get no verdict."""

from __future__ import annotations

import pytest

from probe.compare.compatibility import differences
from probe.compare.run_record import LATE, Setting, Stage, Trial


def side(*steps: float, unit: str = "steps", **like: Setting) -> list[Trial]:
    return [
        Trial(
            id=str(count),
            stages={LATE: Stage(count, {})},
            unit=unit,
            is_like={"unit": unit, **like},
        )
        for count in steps
    ]


@pytest.mark.parametrize(("base", "other"), [((750, 750), (189, 189)), ((100,), (115,))])
def test_another_number_of_steps_is_another_size_perhaps(
    base: tuple[float, ...], other: tuple[float, ...]
) -> None:
    (line,) = differences(side(*base), side(*other), targeted=False)
    assert line.startswith(
        f"only steps are counted, {max(base + other):.0f} against {min(base + other):.0f}"
    )
    assert "run.log(samples=…)" in line


def test_what_counts_samples_or_has_a_target_or_as_many_steps_is_compared() -> None:
    assert not differences(side(750, unit="samples"), side(189, unit="samples"), targeted=False)
    assert not differences(side(100, 105), side(108, 102), targeted=False)
    assert not differences(side(750), side(189), targeted=True)
    aim = "accuracy>=0.9"
    assert not differences(side(750, target=aim), side(189, target=aim), targeted=False)


def test_what_differs_anyway_is_named_alone() -> None:
    assert differences(side(750, data="a"), side(189, data="b"), targeted=False) == [
        "other data: a against b"
    ]
