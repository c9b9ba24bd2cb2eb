"""Steps of several optimizers, and the iterations that they share."""

from __future__ import annotations

import numpy as np
import pytest

from probe.ring.layout import Record
from probe.ring.reader import SLOT_DTYPE
from probe.timeline.optimizer_steps import OptimizerCounter, OptimizerSteps

NAMES = {
    40: "optimizer/Adam 1",
    41: "optimizer/SGD 1",
    42: "optimizer/SGD 2",
    43: "optimizer/SGD 3",
    44: "optimizer/others",
}


def stepped(*records: tuple[int, int]) -> np.ndarray:
    """Records of (code, steps so far), one a microsecond."""
    rows = np.zeros(len(records), SLOT_DTYPE)
    rows["kind"] = int(Record.STEPPED)
    rows["code"], rows["payload"] = np.array(records).T
    rows["time_ns"] = 1000 * np.arange(1, len(records) + 1)
    return rows


@pytest.mark.parametrize(
    ("records", "steps", "iterations"),
    [
        # The first one's steps are written once, when the second one steps.
        ([(40, 200), (41, 1), (41, 2)], {"Adam 1": 200, "SGD 1": 2}, 202),
        ([(40, 1), (41, 1), (41, 2), (40, 2), (41, 3), (41, 4)], {"Adam 1": 2, "SGD 1": 4}, 4),
        ([(40, 1), (41, 1), (40, 2), (41, 2)], {"Adam 1": 2, "SGD 1": 2}, 2),
        # A new SGD for each step of Adam, as in MAML.
        (
            [(41, 1), (41, 2), (40, 1), (42, 1), (42, 2), (40, 2), (44, 1), (44, 2), (40, 3)],
            {"SGD 1": 2, "Adam 1": 3, "SGD 2": 2, "others": 2},
            6,
        ),
        # A new SGD while Adam goes on, and one that follows both.
        (
            [(40, 1), (41, 1), (41, 2), (40, 2), (42, 1), (42, 2), (40, 3), (43, 1)],
            {"Adam 1": 3, "SGD 1": 2, "SGD 2": 2, "SGD 3": 1},
            5,
        ),
        # Two trainings of two SGDs each, which take turns.
        (
            [(41, 1), (42, 1), (41, 2), (43, 1), (44, 1)],
            {"SGD 1": 2, "SGD 2": 1, "SGD 3": 1, "others": 1},
            4,
        ),
        ([], {}, 0),
    ],
)
@pytest.mark.parametrize("batch", [1, 100])
def test_those_that_take_turns_share_iterations(
    records: list[tuple[int, int]], steps: dict[str, int], iterations: int, batch: int
) -> None:
    counter = OptimizerCounter()
    rows = stepped(*records) if records else np.zeros(0, SLOT_DTYPE)
    for begin in range(0, len(rows), batch):
        counter.take(rows[begin : begin + batch])
    assert counter.result(NAMES) == OptimizerSteps(steps, iterations)


def test_trainings_that_follow_each_other_are_added() -> None:
    part = OptimizerSteps({"Adam 1": 3, "SGD 1": 5}, 5)
    assert OptimizerSteps.joined([part, part]) == OptimizerSteps({"Adam 1": 6, "SGD 1": 10}, 10)
