"""Scores, constraints and the front against sums by hand, brute force and simulated repeats."""

from __future__ import annotations

import numpy as np
import pytest

from probe.compare.objective.command_line import limits, weights
from probe.compare.objective.run_cost import RunCost
from probe.compare.objective.scores import Configuration, Limit, Met, cost, mean, objective
from probe.errors import UsageError

WEIGHTS = {"time": 1.0, "memory": 0.5, "energy": 2.0}


def run(
    number: int, time_s: float, memory: float, energy: float | None, **metrics: float
) -> RunCost:
    return RunCost(f"r{number}", "", True, time_s, memory, energy, None, metrics)


def repeated(name: str, rows: np.ndarray) -> Configuration:
    return Configuration(name, [run(i, *row) for i, row in enumerate(rows.tolist())])


def single(values: np.ndarray) -> list[Configuration]:
    return [Configuration(f"c{i}", [run(i, *row)]) for i, row in enumerate(values.tolist())]


@pytest.mark.parametrize("seed", range(4))
def test_costs_and_front_of_single_runs(seed: int) -> None:
    values = np.random.default_rng(seed).integers(1, 6, (9, 3)).astype(float)
    result = objective(single(values), WEIGHTS)
    by_name = {score.name: score for score in result.scores}
    for i, row in enumerate(values):
        by_hand = row[0] / values[0][0] + 0.5 * row[1] / values[0][1] + 2 * row[2] / values[0][2]
        score = by_name[f"c{i}"]
        assert score.cost is not None and score.cost.value == pytest.approx(by_hand)
        beaten = any((other <= row).all() and (other < row).any() for other in values)
        assert score.on_front is not beaten and bool(score.beaten_by) is beaten
    costs = [score.cost.value for score in result.scores if score.cost is not None]
    assert costs == sorted(costs) and "without intervals" in result.notes[0]


@pytest.mark.parametrize("repeats", [3, 5, 8])
def test_intervals_of_repeated_runs_hold(repeats: int) -> None:
    random = np.random.default_rng(repeats)
    truth_base, truth = np.array([10.0, 4e9, 500.0]), np.array([8.0, 3e9, 550.0])
    expected = float(np.array([1.0, 0.5, 2.0]) @ (truth / truth_base))
    held = held_mean = 0
    trials = 1_000
    for _ in range(trials):
        sides = []
        for name, centre in (("base", truth_base), ("other", truth)):
            draws = centre * (1 + 0.05 * random.standard_normal((repeats, 3)))
            sides.append(
                Configuration(name, [run(i, *row) for i, row in enumerate(draws.tolist())])
            )
        known = cost(sides[1], sides[0], WEIGHTS)
        assert known.interval is not None
        held += known.interval[0] <= expected <= known.interval[1]
        low, high = mean(sides[1].values("time")).interval or (0.0, 0.0)
        held_mean += low <= 8.0 <= high
    print(f"{repeats} runs: {held / trials:.1%} of costs, {held_mean / trials:.1%} of means hold")
    assert held >= 0.93 * trials and held_mean >= 0.93 * trials


def test_by_chance_nobody_beats_anybody() -> None:
    random = np.random.default_rng(1)
    beaten = 0
    for _ in range(300):
        sides = [
            repeated(name, 100 * (1 + 0.05 * random.standard_normal((4, 3)))) for name in ("a", "b")
        ]
        result = objective(sides, WEIGHTS)
        beaten += any(score.beaten_by for score in result.scores)
    assert beaten <= 0.1 * 300  # 2.5 % per term and direction, where all three lie the same way
    better = Configuration("c", [run(i, 50 + i, 90, 90) for i in range(4)])
    worse = Configuration("d", [run(9 + i, 80 + i, 95, 95) for i in range(4)])
    result = objective([worse, better], WEIGHTS)
    assert [score.beaten_by for score in result.scores] == [None, "c"]


def test_constraints() -> None:
    three = Configuration("three", [run(i, 1.0, 4e9, 1.0, eval_loss=v) for i, v in enumerate(
        (2.0, 2.1, 2.2))])  # fmt: skip
    one = Configuration("one", [run(7, 1.0, 9e9, 1.0, loss=2.1)])
    asked = [Limit("loss", 3.0), Limit("loss", 2.05), Limit("loss", 1.0), Limit("memory", 5e9),
             Limit("gradient", 1.0), Limit("loss", 1.0, at_least=True)]  # fmt: skip
    states = {
        score.name: [limit.met for limit in score.limits]
        for score in objective([three, one], {"time": 1.0}, asked).scores
    }
    assert states["three"] == [Met.YES, Met.UNSURE, Met.NO, Met.YES, Met.UNKNOWN, Met.YES]
    assert states["one"] == [Met.YES, Met.NO, Met.NO, Met.NO, Met.UNKNOWN, Met.YES]


def test_what_is_missing_is_said() -> None:
    with pytest.raises(UsageError, match="no measured energy: leave energy out"):
        objective([Configuration("a", [run(0, 1, 1, None)])], WEIGHTS)
    half = Configuration("half", [run(1, 1, 1, 5.0), run(2, 1, 1, None)])
    result = objective([Configuration("a", [run(0, 1, 1, 5.0)]), half], WEIGHTS)
    (score,) = [score for score in result.scores if score.name == "half"]
    assert score.cost is None and not score.on_front and "energy" not in score.quantities


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("time=1,foo=2", "'foo' is none of"),
        ("time", "no NAME=VALUE"),
        ("time=-1", "negative"),
        ("time=1s", "write a number"),
    ],
)
def test_weights_that_cannot_be_used(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        weights(text)


def test_units() -> None:
    asked = limits(["memory=6GiB", "time=2h", "energy=1.5kWh", "loss=2.5"], ["accuracy=0.8"])
    assert [limit.value for limit in asked] == [6 * 2**30, 7200.0, 5.4e6, 2.5, 0.8]
    assert [limit.at_least for limit in asked] == [False] * 4 + [True]
    for text in ("memory=6parsec", "loss=2.5GiB", "memory"):
        with pytest.raises(UsageError, match="write"):
            limits([text], [])
