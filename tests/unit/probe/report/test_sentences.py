"""How a report names optimizers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from probe.report.document import state
from probe.report.sentences import steps, steps_by_optimizer
from tests.fakes.reports import report_of_rows


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


def test_one_step_is_singular() -> None:
    run = replace(
        report_of_rows().run, steps=1, optimizers={}, step_s=1.0, step_s_quartiles=(1.0, 2.0)
    )
    assert steps(replace(run, steps_left_out=1)) == (
        "1 step · 1.00 s per step (1.00 s … 2.00 s; the first left out)"
    )
    assert steps(replace(run, steps=2)).startswith("2 steps · ")


def test_of_a_part_the_length_of_the_run_is_not_said() -> None:
    report = report_of_rows()
    report_of_part = replace(report, run=replace(report.run, part_s=(0.0, 2.0), duration_s=2.0))
    assert state(report).startswith("finished after ")
    assert state(report_of_part).startswith("finished · only from 0 s to 2.00 s")
