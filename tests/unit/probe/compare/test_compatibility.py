"""Runs whose steps may be of different sizes, or whose models differ, get no verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from probe.compare.compatibility import differences
from probe.compare.groups import Campaign
from probe.compare.run_record import LATE, Setting, Stage, Trial, Use
from probe.compare.sides import Side


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


@pytest.mark.parametrize(("metric", "of_evaluation"), [("eval_loss", True), ("loss", False)])
def test_other_models_are_compared_by_quality_alone_if_asked(
    metric: str, of_evaluation: bool
) -> None:
    wide, narrow = (
        [
            replace(trial, quality=2.0, stages={LATE: Stage(trial.samples, {"forward": Use(9, 9)})})
            for trial in side(100, 101, unit="samples", model=model)
        ]
        for model in ("wide", "narrow")
    )
    sides = [Side("wide", wide), Side("narrow", narrow)]
    campaign = Campaign(sides, None, (metric, False), {}, [], (), of_evaluation)
    (refused,) = campaign.compared(0.01).comparisons
    assert refused.differs and refused.differs[0].startswith("another model")
    report = campaign.compared(0.01, same_task=True)
    assert report.comparisons[0].comparable
    assert any("training data" in line for line in report.warnings) is not of_evaluation
    narrow[0] = replace(narrow[0], quality=None)
    (unknown,) = campaign.compared(0.01, same_task=True).comparisons
    assert "how good the models became is not known of 100" in unknown.reason
