from __future__ import annotations

import numpy as np
import pytest

from probe.compare.progress import Quality, Work, judged_by
from probe.errors import UsageError
from probe.target import Target


def work(samples: list[float]) -> Work:
    at = np.arange(1, len(samples) + 1) * 1000
    return Work.of(0, {"samples": (at, np.array(samples))}, np.zeros(0, np.int64))


def quality(values: list[float], *, higher: bool = True) -> Quality:
    return Quality("accuracy", higher, np.arange(1, len(values) + 1) * 100.0, np.array(values))


def test_samples_and_instants() -> None:
    counted = work([10, 10, 20])
    assert counted.all == 40 and counted.unit == "samples"
    assert counted.when(10) == 1000 and counted.when(30) == 2500
    assert counted.by(np.array([500, 1000, 2999, 9000])).tolist() == [0.0, 10.0, 20.0, 40.0]


def test_steps_where_nothing_was_logged() -> None:
    counted = Work.of(0, {}, np.array([10, 20, 30]))
    assert (counted.unit, counted.all, counted.when(2)) == ("steps", 3.0, 20)
    tokens = Work.of(0, {"tokens": (np.array([5]), np.array([7.0]))}, np.array([10]))
    assert (tokens.unit, tokens.all) == ("tokens", 7.0)


@pytest.mark.parametrize(
    ("values", "confirmed", "expected"),
    [
        ([0.5, 0.7, 0.9, 0.95], True, 250.0),  # 0.8 lies midway between the second and the third
        ([0.9, 0.95], True, 100.0),  # from the first evaluation on
        ([0.5, 0.9, 0.5, 0.6], True, None),  # once is chance
        ([0.5, 0.9, 0.5, 0.6], False, 175.0),
        ([0.5, 0.9, 0.5, 0.9, 0.9], True, 375.0),
        ([0.5, 0.7, 0.9], True, 250.0),  # the last one: nothing speaks against it
        ([0.5, 0.6], True, None),
    ],
)
def test_reaching(values: list[float], confirmed: bool, expected: float | None) -> None:
    assert quality(values).reaches(0.8, confirmed=confirmed) == (
        None if expected is None else pytest.approx(expected)
    )


def test_reaching_downwards() -> None:
    assert quality([4.0, 2.0, 1.0], higher=False).reaches(3.0) == pytest.approx(150.0)


def test_a_run_that_stopped_at_its_target() -> None:
    target = Target.of("accuracy>=0.8")
    assert quality([0.5, 0.85, 0.9]).stopped_at(target)
    assert not quality([0.5, 0.85, 0.9, 0.91]).stopped_at(target)
    assert not quality([0.5, 0.85, 0.7]).stopped_at(target)
    assert not quality([0.5]).stopped_at(target)


def test_values_of_every_step_are_smoothed() -> None:
    rng = np.random.default_rng(0)
    falling = np.linspace(3, 1, 400) + rng.normal(0, 0.3, 400)
    logged = {
        "loss": (np.arange(400) * 1000, falling),
        "samples": (np.arange(400) * 1000, np.ones(400)),
    }
    quality = Quality.of("loss", False, logged, Work.of(0, logged, np.zeros(0, np.int64)))
    assert quality is not None and len(quality.values) == 381
    reached = quality.reaches(2.0, confirmed=True)
    assert reached is not None and abs(reached - 210) < 30


def test_evaluations_may_bear_a_prefix_and_gaps() -> None:
    logged = {"eval_loss": (np.array([1, 2, 3]), np.array([2.0, np.nan, 1.0]))}
    quality = Quality.of("loss", False, logged, work([1, 1, 1]))
    assert (
        quality is not None
        and quality.metric == "eval_loss"
        and quality.values.tolist() == [2.0, 1.0]
    )
    assert Quality.of("accuracy", True, logged, work([1])) is None


def test_by_what_a_run_is_judged() -> None:
    column = (np.array([1]), np.array([1.0]))
    assert judged_by({"loss": column, "eval_accuracy": column}) == ("eval_accuracy", True)
    assert judged_by({"loss": column, "samples": column}) == ("loss", False)
    assert judged_by({"samples": column}) is None


@pytest.mark.parametrize("text", ["accuracy", "accuracy=0.9", ">=0.9", "a>=x", ""])
def test_a_target_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"write for example 'accuracy>=0\.95'"):
        Target.of(text)


def test_a_target_is_written_as_it_is_read() -> None:
    assert str(Target.of(" loss < 0.50")) == "loss<=0.5"
    assert Target.of("a>=1").met(1.0) and not Target.of("a<=1").met(1.5)
