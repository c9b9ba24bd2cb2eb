"""The verdict on a champion: of every objective, and where there is none to be had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from optimizers.search.objective import Objective
from optimizers.search.proof import Sides, prove
from probe.compare.gain import Verdict
from probe.compare.run_record import LATE, Stage, Trial, Use
from probe.compare.sides import Question, Side
from probe.model import Provenance
from probe.target import Target

QUESTION = Question(Target("loss", False, 1.0), metric="loss", higher=False)


def side(name: str, runs: Sequence[tuple[float, float]], **more: object) -> Side:
    return Side(
        name,
        [
            Trial(
                id=f"{name}{at}",
                stages={LATE: Stage(100.0, {"forward": Use(seconds, joules)})},
                **{  # type: ignore[arg-type]
                    "reached": True,
                    "stopped": True,
                    "quality": 1.0,
                    "energy": Provenance.MEASURED,
                    "meters": frozenset({"GPU-1"}),
                    "meter_error": 0.0,
                    **more,
                },
            )
            for at, (seconds, joules) in enumerate(runs)
        ],
    )


DEFAULT = [(10.0, 900.0), (11.0, 1000.0), (12.0, 1010.0), (10.5, 950.0)]
CHAMPION = [(8.0, 1000.0), (9.1, 1130.0), (9.8, 1100.0), (8.7, 1060.0)]


@pytest.mark.parametrize(
    ("objective", "verdict"),
    [
        (Objective("time"), Verdict.GAIN),
        (Objective("energy"), Verdict.LOSS),
        (Objective("edp"), Verdict.GAIN),
        (Objective("cost", 0.3, 0.0, "EUR"), Verdict.LOSS),
        (Objective("cost", 0.3, 2.0, "EUR"), Verdict.GAIN),
        (Objective("cost", 0.0, 2.0, "EUR"), Verdict.GAIN),
    ],
)
def test_each_objective_is_judged_by_its_own_pairs(objective: Objective, verdict: Verdict) -> None:
    proof = prove(Sides(side("a", DEFAULT), side("b", CHAMPION), QUESTION), objective)
    values = [[objective.of(*run) for run in runs] for runs in (DEFAULT, CHAMPION)]
    saved = np.subtract(*values)
    interval = stats.t.interval(0.95, len(saved) - 1, saved.mean(), stats.sem(saved))
    assert proof.verdict is verdict and proof.pairs == 4
    assert proof.gain == pytest.approx(saved.mean()) and proof.interval == pytest.approx(interval)
    assert (proof.default, proof.champion) == pytest.approx(tuple(np.mean(values, axis=1)))
    assert proof.word == ("pays" if verdict is Verdict.GAIN else "costs")


@pytest.mark.parametrize("kind", ["time", "edp"])
def test_a_champion_that_missed_the_target_never_pays(kind: str) -> None:
    objective = Objective(kind)  # type: ignore[arg-type]
    missed = side("b", CHAMPION, reached=False, stopped=False)
    proof = prove(Sides(side("a", DEFAULT), missed, QUESTION), objective)
    assert proof.verdict is Verdict.NO_EVIDENCE and "target missed" in proof.reason


@pytest.mark.parametrize("kind", ["time", "edp"])
def test_a_champion_that_is_worse_or_another_model_never_pays(kind: str) -> None:
    objective = Objective(kind)  # type: ignore[arg-type]
    default = side("a", DEFAULT, stopped=False, quality=0.9)
    worse = side("b", CHAMPION, stopped=False, quality=0.99)
    proof = prove(Sides(default, worse, QUESTION), objective)
    assert proof.verdict is Verdict.NO_EVIDENCE and "quality" in proof.reason
    unlike = Sides(side("a", DEFAULT), side("b", CHAMPION), QUESTION, ["another model"])
    proof = prove(unlike, objective)
    assert proof.verdict is Verdict.NO_EVIDENCE and "another model" in proof.reason


def test_energy_that_nothing_measured_has_no_objective() -> None:
    for kind in ("energy", "edp"):
        objective = Objective(kind)  # type: ignore[arg-type]
        assert objective.needs_meter and objective.of(10.0, None) is None
    assert not Objective("cost", 0.0, 2.0).needs_meter
    assert Objective("cost", 0.0, 3.6).of(1000.0, None) == pytest.approx(1.0)
    assert Objective("cost", 0.5, 0.0).of(1.0, 7.2e6) == pytest.approx(1.0)
