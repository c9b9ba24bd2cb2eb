from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe.compare import phase_classes as kinds
from probe.compare.cells import COST, GAIN, PROGRESS, Layout, differences, energy_row, time_row
from probe.compare.model import MovedPhase
from probe.compare.run_record import EARLY, LATE, Joint, Stage, Trial, Use
from tests.fakes.reports import rate_row

BOUND = {"forward": 0.4, "backward": 0.25, "optimizer": 1.0}
PHASES = (
    "data",
    "forward",
    "backward",
    "optimizer",
    "communication",
    "eval",
    "mine",
    "unattributed",
)

amounts = st.floats(0, 1e6, allow_nan=False)


@st.composite
def stages(draw: st.DrawFn) -> Stage:
    chosen = draw(st.lists(st.sampled_from(PHASES), unique=True))
    uses = {phase: Use(draw(amounts), draw(st.none() | amounts)) for phase in chosen}
    joint = draw(amounts) if any(use.energy_j is None for use in uses.values()) else 0.0
    return Stage(draw(st.just(0.0) | st.floats(1, 1e6)), uses, Joint(joint, joint / 2, joint * 2))


def trial(early: Stage, late: Stage, **more: object) -> Trial:
    return Trial(id="x", stages={EARLY: early, LATE: late}, bound_share=BOUND, **more)  # type: ignore[arg-type]


@given(stages(), stages(), stages(), stages())
@settings(max_examples=200, deadline=None)
def test_cells_add_up_to_the_total_and_progress_and_cost_to_each(
    a: Stage, b: Stage, c: Stage, d: Stage
) -> None:
    base, other = trial(a, b), trial(c, d)
    layout = Layout.of([base, other], kinds.PhaseClasses.of_base([base]))
    for row_of, total in ((time_row, lambda t: t.time_s), (energy_row, lambda t: t.energy_j)):
        changes = differences(row_of(base, layout), row_of(other, layout))
        scale = max(1.0, total(base), total(other))
        assert changes[GAIN, -1] == pytest.approx(total(base) - total(other), abs=1e-9 * scale)
        assert changes[GAIN, :-1].sum() == pytest.approx(changes[GAIN, -1], abs=1e-9 * scale)
        assert np.allclose(
            changes[PROGRESS] + changes[COST], changes[GAIN], rtol=0, atol=1e-9 * scale
        )


def test_the_papers_26_percent() -> None:
    """21.5 % less per sample and 6 % fewer samples are 26 % less, and neither is lost."""
    base = trial(Stage(0, {}), Stage(1000.0, {"forward": Use(1000.0, 1000.0)}))
    other = trial(Stage(0, {}), Stage(940.0, {"forward": Use(940 * 0.785, 940 * 0.785)}))
    layout = Layout.of([base, other], kinds.PhaseClasses.of_base([base]))
    changes = differences(energy_row(base, layout), energy_row(other, layout))[:, -1]
    assert changes[GAIN] / 1000 == pytest.approx(1 - 0.94 * 0.785)  # 26.2 %
    assert changes[PROGRESS] == pytest.approx(60 * (1 + 0.785) / 2)
    assert changes[COST] == pytest.approx(0.215 * (1000 + 940) / 2)


def test_fewer_samples_are_no_cheaper_samples() -> None:
    uses = {"forward": Use(10.0, 100.0), "unattributed": Use(5.0, 50.0)}
    fewer = {"forward": Use(9.0, 90.0), "unattributed": Use(5.0, 50.0)}
    base, other = trial(Stage(100, uses), Stage(0, {})), trial(Stage(90, fewer), Stage(0, {}))
    layout = Layout.of([base, other], kinds.PhaseClasses.of_base([base]))
    changes = differences(energy_row(base, layout), energy_row(other, layout))
    assert np.allclose(changes[COST], 0, atol=1e-12)
    assert changes[PROGRESS, -1] == pytest.approx(10.0)


def test_a_stage_that_one_run_never_had_is_progress() -> None:
    base = trial(Stage(50, {"forward": Use(5.0, 50.0)}), Stage(50, {"forward": Use(5.0, 50.0)}))
    other = trial(Stage(100, {"forward": Use(10.0, 100.0)}), Stage(0, {}))
    layout = Layout.of([base, other], kinds.PhaseClasses.of_base([base]))
    changes = differences(energy_row(base, layout), energy_row(other, layout))
    assert np.allclose(changes[COST], 0, atol=1e-12) and np.allclose(changes[:, -1], 0, atol=1e-12)


def test_what_one_run_refuses_is_told_apart_in_none() -> None:
    base = trial(Stage(10, {"forward": Use(1.0, 30.0), "data": Use(1.0, 5.0)}), Stage(0, {}))
    other = trial(
        Stage(10, {"forward": Use(1.0, 20.0), "data": Use(1.0, None)}, Joint(4.0, 3.0, 6.0)),
        Stage(0, {}),
    )
    layout = Layout.of([base, other], kinds.PhaseClasses.of_base([base]))
    place = layout.cells.index((EARLY, kinds.UNIDENTIFIED))
    changes = differences(energy_row(base, layout), energy_row(other, layout))
    assert changes[GAIN, place] == pytest.approx(5.0 - 4.0)
    assert changes[GAIN, layout.cells.index((EARLY, kinds.WAITING))] == 0.0
    seconds = differences(time_row(base, layout), time_row(other, layout))
    assert seconds[GAIN, place] == 0.0
    assert layout.phases_in((EARLY, kinds.WAITING), [base, other]) == (
        [],
        ["data"],
        "not_identifiable",
    )


def test_classes_are_the_bases() -> None:
    base = trial(Stage(1, {}), Stage(1, {}))
    classes = kinds.PhaseClasses.of_base([base])
    assert classes.of("forward") == {"memory-bound": 0.4, "compute": 0.6}
    assert classes.of("forward/attention") == {"memory-bound": 0.4, "compute": 0.6}
    assert classes.of("optimizer") == {"memory-bound": 1.0, "gradient-heavy": 0.0}
    assert classes.of("recompute") == {"memory-bound": 0.4, "gradient-heavy": 0.6}
    assert classes.of("data") == {"waiting": 1.0}
    assert classes.of("my own") == {"unclassified": 1.0}
    assert classes.memory_separated and classes.how(["forward"]) == "counted"
    assert classes.how(["forward", "data"]) == "by phase"  # the least certain
    other = Trial(id="z", stages={}, bound_share=BOUND | {"backward": 0.6})
    assert kinds.moved([base], [other]) == [MovedPhase("backward", 0.25, 0.6)]


def test_a_phase_is_classed_by_its_name_where_nothing_was_counted() -> None:
    blind = Trial(id="y", stages={})
    for bases in ([blind], [trial(Stage(1, {}), Stage(1, {})), blind]):
        classes = kinds.PhaseClasses.of_base(bases)
        expected = {
            "compute": ("forward", "inference", "forward/mlp"),
            "gradient-heavy": ("backward", "recompute", "optimizer", "clipping"),
            "communication": ("communication",),
            "waiting": ("data", "idle", "other"),
            "overhead": ("eval", "checkpoint", "startup", "startup/compile", "unattributed"),
        }
        for kind, phases in expected.items():
            assert [classes.of(phase) for phase in phases] == [{kind: 1.0}] * len(phases)
            assert classes.how(phases) == "by phase"
        assert not classes.memory_separated


def test_the_devices_own_activity_is_preferred_and_named() -> None:
    measured = Trial(
        id="m", stages={}, bound_share=BOUND, measured_bound=frozenset({"forward", "backward"})
    )
    classes = kinds.PhaseClasses.of_base([measured])
    assert classes.how(["forward"]) == classes.how(["recompute"]) == "measured"
    assert classes.how(["optimizer"]) == "counted"


@pytest.mark.parametrize(
    ("dram", "tensor", "sm", "expected"),
    [
        (0.8, 0.1, 0.9, {"forward": 1.0}),
        (0.3, 0.6, 0.9, {"forward": 0.0}),
        (0.3, 0.0, 0.9, {"forward": 0.0}),  # fp32 arithmetic: SMs are busy, DRAM is not
        (0.2, 0.1, 0.2, {}),  # nothing is busy: who knows
        (None, 0.1, 0.9, {}),
    ],
)
def test_the_devices_own_word(
    dram: float | None, tensor: float, sm: float, expected: dict[str, float]
) -> None:
    rows = [
        rate_row(f"{name}_activity", phase, 1.0, value)
        for phase in ("forward", "data")
        for name, value in (("dram", dram), ("tensor", tensor), ("sm", sm))
        if value is not None
    ]
    assert kinds.limited(rows) == expected
