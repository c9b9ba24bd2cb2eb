"""How a report names optimizers."""

from __future__ import annotations

import pytest

from probe.report.sentences import steps_by_optimizer


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ({"SGD 1": 5, "Adam 1": 20}, "Adam 1: 20, SGD 1: 5"),
        (
            {"Adam 1": 20} | {f"SGD {number}": 3 for number in range(1, 21)} | {"others": 6},
            "20 × SGD: 60, Adam: 20, others: 6",
        ),
    ],
)
def test_a_few_optimizers_are_named_and_many_are_summed_by_kind(
    steps: dict[str, int], line: str
) -> None:
    assert steps_by_optimizer(steps) == line
