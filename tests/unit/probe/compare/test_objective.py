"""The objective against numpy, scipy and brute force on random configurations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy import stats

from probe.compare.objective import intervals
from probe.compare.objective.evaluate import evaluate
from probe.compare.objective.intervals import Estimate
from probe.compare.objective.model import Limit, ObjectiveReport, Place, State
from probe.compare.objective.quantities import front_of, limit_of, weights_of
from probe.compare.objective.read import MISSED, Group, RunCost, costs_of, gradient
from probe.compare.objective.text import render
from probe.compare.run_record import EARLY, LATE, Stage, Trial, Use
from probe.errors import NothingToReport, UsageError
from probe.model import Provenance

COSTS = ("time", "memory", "energy")
METER = frozenset({"GPU-1"})


def group(
    name: str,
    values: Mapping[str, Sequence[float]],
    *,
    blocks: bool = False,
    meters: frozenset[str] = METER,
    error: float = 0.0,
) -> Group:
    """A configuration: one run per place in the columns of ``values``."""
    count = len(next(iter(values.values())))
    return Group(
        name,
        [
            RunCost(
                f"{name}-{i}",
                {quantity: float(column[i]) for quantity, column in values.items()},
                block=str(i) if blocks else None,
                meters=meters,
                meter_error=error,
            )
            for i in range(count)
        ],
    )


def random_groups(rng: np.random.Generator, count: int, runs: int, spread: float) -> list[Group]:
    return [
        group(
            f"c{i}",
            {
                name: rng.uniform(0.5, 2.0) * 100 * (1 + spread * rng.normal(size=runs))
                for name in COSTS
            },
        )
        for i in range(count)
    ]


def column(of: Group, quantity: str) -> np.ndarray:
    return np.array([run.values[quantity] for run in of.runs])


# -- the score ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_score_is_the_sum_of_weighted_ratios(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = random_groups(rng, int(rng.integers(2, 7)), int(rng.integers(1, 6)), 0.05)
    weights = dict(zip(COSTS, rng.uniform(0.1, 3.0, 3), strict=True))
    report = evaluate(groups, weights)
    wanted = {}
    for each in groups:
        total = 0.0
        for name in COSTS:
            own = sum(run.values[name] for run in each.runs) / len(each.runs)
            unit = sum(run.values[name] for run in groups[0].runs) / len(groups[0].runs)
            total += weights[name] * own / unit
        wanted[each.name] = total
    assert {c.name: c.score for c in report.configurations} == pytest.approx(wanted)
    assert report.configurations[0].score == pytest.approx(sum(weights.values()))
    assert report.lowest == min(wanted, key=wanted.__getitem__)
    for c in report.configurations:
        assert sum(term.weighted or 0.0 for term in c.terms) == pytest.approx(c.score)


def test_the_score_by_hand() -> None:
    base = group("base", {"time": [10, 14], "memory": [4, 4], "energy": [100, 300]})
    other = group("other", {"time": [6, 12], "memory": [2, 4], "energy": [100, 100]})
    report = evaluate([base, other], {"time": 1.0, "memory": 0.5, "energy": 2.0})
    # 9/12 + 0.5 · 3/4 + 2 · 100/200
    assert report.configurations[1].score == pytest.approx(0.75 + 0.375 + 1.0)


def test_intervals_are_those_of_scipy() -> None:
    rng = np.random.default_rng(3)
    first = group("one", {"time": rng.normal(10, 1, 5)})
    two = group("two", {"time": rng.normal(11, 3, 7)})
    expected = intervals.mean(first, "time")
    wanted = stats.t.interval(
        0.95, 4, column(first, "time").mean(), stats.sem(column(first, "time"))
    )
    assert expected is not None and expected.interval == pytest.approx(wanted)
    gap = intervals.difference(first, two, "time")
    welch = stats.ttest_ind(column(first, "time"), column(two, "time"), equal_var=False)
    assert gap is not None
    assert gap.interval == pytest.approx(tuple(welch.confidence_interval(0.95)))
    paired = [
        group(each.name, {"time": column(each, "time")[:5]}, blocks=True) for each in (first, two)
    ]
    gap = intervals.difference(paired[0], paired[1], "time")
    related = stats.ttest_rel(column(paired[0], "time"), column(paired[1], "time"))
    assert gap is not None
    assert gap.interval == pytest.approx(tuple(related.confidence_interval(0.95)))


def test_pairs_are_found_by_their_block_in_any_order() -> None:
    values = {"time": [10.0, 20.0, 30.0]}
    base = group("base", values, blocks=True)
    other = Group("other", group("other", {"time": [11.0, 21.5, 31.2]}, blocks=True).runs[::-1])
    gap = intervals.difference(other, base, "time")
    wanted = stats.ttest_1samp([1.0, 1.5, 1.2], 0.0).confidence_interval(0.95)
    assert gap is not None and gap.interval == pytest.approx(tuple(wanted))


SIMULATIONS = 1500
TRUTH = {"base": (100.0, 8.0, 3000.0), "other": (80.0, 7.0, 2900.0)}
SPREAD = (0.05, 0.01, 0.08)
WEIGHTS = {"time": 1.0, "memory": 0.5, "energy": 1.0}


def simulated(rng: np.random.Generator, name: str, runs: int, shared: np.ndarray | None) -> Group:
    """Time and energy vary together; runs of one seed share a part of it."""
    common = rng.normal(size=runs)
    noise = np.array([0.8 * common + 0.6 * rng.normal(size=runs) for _ in COSTS])
    if shared is not None:
        noise = 0.5 * noise + 0.87 * shared[:runs]
    return group(
        name,
        {
            quantity: truth * (1 + spread * row)
            for quantity, truth, spread, row in zip(COSTS, TRUTH[name], SPREAD, noise, strict=True)
        },
        blocks=shared is not None,
    )


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("runs", range(3, 9))
def test_intervals_of_the_score_hold_the_truth(runs: int, paired: bool) -> None:
    true_c = sum(
        weight * own / unit
        for weight, own, unit in zip(WEIGHTS.values(), TRUTH["other"], TRUTH["base"], strict=True)
    )
    held = mean_held = 0
    for seed in range(SIMULATIONS):
        rng = np.random.default_rng([runs, paired, seed])
        shared = rng.normal(size=runs) if paired else None
        base, other = (simulated(rng, name, runs, shared) for name in TRUTH)
        c = intervals.score(other, base, WEIGHTS)
        energy = intervals.mean(other, "energy")
        assert c is not None and c.interval is not None
        assert energy is not None and energy.interval is not None
        held += c.interval[0] <= true_c <= c.interval[1]
        mean_held += energy.interval[0] <= TRUTH["other"][2] <= energy.interval[1]
    assert held / SIMULATIONS >= 0.93, held / SIMULATIONS
    assert mean_held / SIMULATIONS >= 0.93, mean_held / SIMULATIONS
    assert held < SIMULATIONS  # an interval that always holds it says nothing


def test_the_base_is_no_surer_than_its_runs() -> None:
    """A base that spreads widens the interval of another configuration that does not."""
    steady = group("steady", {"time": [9.99, 10.0, 10.01]})
    calm, wild = (group("base", {"time": [10 - s, 10, 10 + s]}) for s in (0.01, 2.0))
    narrow, wide = (intervals.score(steady, base, {"time": 1.0}) for base in (calm, wild))
    assert narrow is not None and wide is not None
    assert wide.half is not None and narrow.half is not None and wide.half > 50 * narrow.half


def test_meters_that_differ_widen_joules_and_one_meter_cancels_in_ratios() -> None:
    values = {"energy": [100.0, 101.0, 99.0]}
    base, same = (group(name, values, error=0.05) for name in ("base", "same"))
    elsewhere = group("elsewhere", values, meters=frozenset({"GPU-2"}), error=0.05)
    absolute = intervals.mean(base, "energy")
    own = stats.sem([100, 101, 99]) * stats.t.ppf(0.975, 2)
    assert absolute is not None and absolute.half == pytest.approx(math.hypot(own, 5.0))
    ratio = intervals.score(same, base, {"energy": 1.0})
    other = intervals.score(elsewhere, base, {"energy": 1.0})
    assert ratio is not None and other is not None and ratio.half is not None
    assert other.half == pytest.approx(math.hypot(ratio.half, 0.05 * math.sqrt(2)))


# -- the front ---------------------------------------------------------------------------------


def brute_front(groups: Sequence[Group], quantities: Sequence[str]) -> set[str]:
    """Names of those for which no other row is below or equal everywhere and below somewhere."""
    means = np.array([[column(g, q).mean() for q in quantities] for g in groups])
    below = (means[:, None] <= means[None]).all(2) & (means[:, None] < means[None]).any(2)
    return {g.name for g, beaten in zip(groups, below.any(0), strict=True) if not beaten}


def brute_dominated(groups: Sequence[Group], quantities: Sequence[str]) -> set[str]:
    """Names of those that another one is below, beyond Welch's interval, in every quantity."""
    level = 1 - 0.05 / (len(groups) - 1)
    names = set()
    for loser, winner in itertools.permutations(groups, 2):
        lows = [
            stats.ttest_ind(column(loser, q), column(winner, q), equal_var=False)
            .confidence_interval(level)
            .low
            for q in quantities
        ]
        if min(lows) > 0:
            names.add(loser.name)
    return names


@pytest.mark.parametrize("seed", range(30))
def test_the_front_is_that_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng([17, seed])
    groups = random_groups(rng, int(rng.integers(3, 9)), int(rng.integers(2, 6)), 0.08)
    quantities = COSTS[: int(rng.integers(1, 4))]
    report = evaluate(groups, dict.fromkeys(COSTS, 1.0), front=quantities)
    place = {c.name: c.place for c in report.configurations}
    assert {n for n, p in place.items() if p is Place.FRONT} == brute_front(groups, quantities)
    dominated = {n for n, p in place.items() if p is Place.DOMINATED}
    assert dominated == brute_dominated(groups, quantities)
    assert set(place.values()) <= {Place.FRONT, Place.DOMINATED, Place.TIED}


def test_seeds_show_both_what_is_dominated_and_what_ties() -> None:
    seen = set()
    for seed in range(30):
        rng = np.random.default_rng([17, seed])
        groups = random_groups(rng, int(rng.integers(3, 9)), int(rng.integers(2, 6)), 0.08)
        report = evaluate(groups, dict.fromkeys(COSTS, 1.0), front=["time"])
        seen |= {c.place for c in report.configurations}
    assert seen == {Place.FRONT, Place.DOMINATED, Place.TIED}


def placed(*groups: Group, front: Sequence[str] = (), limits: Sequence[Limit] = ()) -> list[Place]:
    report = evaluate(groups, {"time": 1.0}, limits, front)
    return [c.place for c in report.configurations]


def test_a_quantity_that_is_the_same_in_every_run_is_no_doubt() -> None:
    slow = group("slow", {"time": [20.0, 20.1, 19.9], "memory": [5.0, 5.0, 5.0]})
    fast = group("fast", {"time": [10.0, 10.1, 9.9], "memory": [5.0, 5.0, 5.0]})
    vague = group("vague", {"time": [10.0, 10.1, 9.9], "memory": [4.0, 4.9, 6.0]})
    both = ("time", "memory")
    assert placed(slow, fast, front=both) == [Place.DOMINATED, Place.FRONT]
    assert placed(slow, vague, front=both) == [Place.TIED, Place.FRONT]


def test_one_run_dominates_nothing_and_is_dominated_by_nothing() -> None:
    slow, fast = group("slow", {"time": [20.0]}), group("fast", {"time": [10.0]})
    report = evaluate([slow, fast], {"time": 1.0})
    assert [c.place for c in report.configurations] == [Place.TIED, Place.FRONT]
    assert all(c.score_interval is None for c in report.configurations)
    assert sum("has one run: no interval" in line for line in report.warnings) == 2
    assert report.configurations[0].ties_with_lowest
    assert "one run: an interval needs 2 or more" in render(report)


def test_who_breaks_a_constraint_is_off_the_front_and_beats_nobody() -> None:
    slow = group("slow", {"time": [20.0, 20.1, 19.9], "loss": [1.0, 1.1, 0.9]})
    fast = group("fast", {"time": [10.0, 10.1, 9.9], "loss": [3.0, 3.1, 2.9]})
    limit = limit_of("loss=2", upper=True)
    assert placed(slow, fast) == [Place.DOMINATED, Place.FRONT]
    assert placed(slow, fast, limits=[limit]) == [Place.FRONT, Place.EXCLUDED]
    report = evaluate([slow, fast], {"time": 1.0}, [limit])
    assert report.lowest == "slow" and not report.configurations[1].feasible


def test_of_an_accuracy_more_is_better() -> None:
    good = group("good", {"time": [10.0, 10.1, 9.9], "eval_accuracy": [0.9, 0.91, 0.89]})
    poor = group("poor", {"time": [10.0, 10.1, 9.9], "eval_accuracy": [0.5, 0.51, 0.49]})
    assert placed(good, poor, front=["accuracy"]) == [Place.FRONT, Place.DOMINATED]
    report = evaluate([good, poor], {"time": 1.0}, front=["accuracy"])
    assert report.configurations[0].term("accuracy").value == pytest.approx(0.9)
    with pytest.raises(UsageError, match="whether more or less xyz is better is not known"):
        front_of("time,xyz")


# -- constraints -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "upper", "state"),
    [
        ([1.0, 1.1, 0.9], True, State.MET),  # 1.00 ± 0.25
        ([3.0, 3.1, 2.9], True, State.NOT_MET),
        ([1.9, 2.0, 1.8], True, State.UNSAID),  # 1.90 ± 0.25 straddles 2
        ([2.1, 2.2, 2.0], True, State.UNSAID),
        ([3.0, 3.1, 2.9], False, State.MET),
        ([1.0, 1.1, 0.9], False, State.NOT_MET),
        ([2.1, 2.2, 2.0], False, State.UNSAID),
        ([1.0], True, State.UNSAID),  # one run has no interval
        ([1.5, 1.5], True, State.MET),  # all the same: their value decides
        ([2.0, 2.0], True, State.MET),
        ([2.5, 2.5], True, State.NOT_MET),
    ],
)
def test_a_constraint_is_met_or_not_or_cannot_be_said(
    losses: list[float], upper: bool, state: State
) -> None:
    own = group("own", {"time": [1.0] * len(losses), "loss": losses})
    report = evaluate([own], {"time": 1.0}, [limit_of("loss=2", upper=upper)])
    (constraint,) = report.configurations[0].constraints
    assert constraint.state is state
    assert bool(constraint.reason) == (state is State.UNSAID)


def test_a_limit_at_the_truth_is_seldom_decided() -> None:
    rng = np.random.default_rng(5)
    decided = 0
    for _ in range(1000):
        own = group("own", {"time": [1.0] * 4, "loss": rng.normal(2.0, 0.3, 4)})
        report = evaluate([own], {"time": 1.0}, [limit_of("loss=2", upper=True)])
        decided += report.configurations[0].constraints[0].state is not State.UNSAID
    assert 20 <= decided <= 70  # 5 % by construction


def test_the_gradient_is_unknown_where_it_was_not_logged() -> None:
    own = Group("own", [RunCost("a", {"time": 1.0}, {"gradient_norm": "not logged"})] * 2)
    report = evaluate([own], {"time": 1.0}, [limit_of("gradient_norm=0.1", upper=True)])
    (constraint,) = report.configurations[0].constraints
    assert constraint.state is State.UNSAID and constraint.reason == "not logged"
    assert constraint.value is None
    with pytest.raises(UsageError, match="no run logged 'los'; they logged loss"):
        evaluate(
            [group("own", {"time": [1.0], "loss": [1.0]})],
            {"time": 1.0},
            [limit_of("los=1", upper=True)],
        )


def test_the_norm_of_the_gradient_is_freed_of_noise() -> None:
    """Steps of a known gradient with known noise: ‖ḡ‖² is ‖∇L‖² + σ²/n on average."""
    rng = np.random.default_rng(11)
    truth, k, ranks, dimensions = 3.0, 4, 2, 50
    count, sigma2 = k * ranks, 2.0 * dimensions
    steps = truth / math.sqrt(dimensions) + rng.normal(0, math.sqrt(2.0 / count), (20, dimensions))
    times = np.arange(20)
    logged = {
        "grad_norm": (times, np.linalg.norm(steps, axis=1)),
        "grad_variance": (times, np.full(20, sigma2)),
        "k": (times, np.full(20, float(k))),
    }
    estimated = gradient(logged, ranks)
    assert estimated["gradient_norm"] == pytest.approx(truth, rel=0.15)
    assert np.linalg.norm(steps, axis=1).mean() > 1.3 * truth  # what the noise would make of it
    assert estimated["gradient_variance"] == sigma2
    assert gradient({"grad_norm": logged["grad_norm"]}, ranks) == {}


# -- what is not known -------------------------------------------------------------------------


def trial(provenance: Provenance | None, *, reached: bool | None = None) -> Trial:
    stages = {
        EARLY: Stage(100.0, {"forward": Use(2.0, 50.0)}),
        LATE: Stage(300.0, {"forward": Use(6.0, 150.0)}),
    }
    return Trial(
        id="run", stages=stages, energy=provenance, reached=reached, memory={"peak": 1000.0}
    )


def test_what_a_run_cost() -> None:
    costs, missing = costs_of(trial(Provenance.MEASURED))
    assert costs == pytest.approx(
        {
            "time": 8.0,
            "energy": 200.0,
            "memory": 1000.0,
            "time_per_sample": 0.02,
            "energy_per_sample": 0.5,
        }
    )
    assert not missing
    costs, missing = costs_of(trial(Provenance.MEASURED, reached=False))
    assert not {"time", "energy"} & costs.keys() and missing == {"time": MISSED, "energy": MISSED}
    for provenance in (Provenance.MODELLED, None):
        costs, missing = costs_of(trial(provenance))
        assert "energy" not in costs and missing["energy"].startswith("no meter measured it")


def test_energy_that_no_meter_measured_cannot_be_weighed() -> None:
    metered = group("metered", {"time": [1.0], "memory": [1.0], "energy": [5.0]})
    without = Group(
        "without",
        [
            RunCost(
                "a",
                {"time": 2.0, "memory": 1.0},
                {"energy": "no meter measured it, a model did"},
                modelled_j=7.0,
            )
        ],
    )
    with pytest.raises(UsageError, match=r"no meter measured it.*weight 0.*probe doctor"):
        evaluate([metered, without], {"energy": 1.0})
    report = evaluate([metered, without])
    assert set(report.weights) == {"time", "memory"}
    assert any(line.startswith("energy has no weight: no meter") for line in report.warnings)
    assert report.configurations[1].modelled_energy_j == 7.0
    assert report.configurations[1].score == pytest.approx(2.0 + 1.0)
    assert "never part of C" in render(report)


def test_who_missed_the_target_has_no_score() -> None:
    base = group("base", {"time": [1.0, 1.1]})
    late = Group("late", [RunCost("a", {}, {"time": MISSED}), RunCost("b", {"time": 3.0})])
    report = evaluate([base, late])
    assert report.weights == {"time": 1.0} and report.lowest == "base"
    assert report.configurations[1].score is None
    assert report.configurations[1].reason == f"time: {MISSED} in 1 of 2 runs"
    assert report.configurations[1].place is Place.UNKNOWN
    with pytest.raises(UsageError, match="the base does not know it: the target was missed"):
        evaluate([late, base], {"time": 1.0})
    with pytest.raises(NothingToReport):
        evaluate([late])


def every_kind(name: str, more: Sequence[Limit] = ()) -> ObjectiveReport:
    """Three configurations of all states, named so."""
    groups = [
        group(f"{name} 0", {"time": [9.0, 9.1], "memory": [5e9, 5e9], "loss": [2.0, 2.1]}),
        group(f"{name} 1", {"time": [8.0, 8.1], "memory": [4e9, 4e9], "loss": [3.0, 3.01]}),
        group(f"{name} 2", {"time": [7.0], "memory": [6e9], "loss": [1.0]}),
    ]
    return evaluate(groups, {"time": 1.0}, [limit_of("loss=2.5", upper=True), *more])


def test_the_text_names_every_state_and_no_unknown_is_a_zero() -> None:
    text = render(every_kind("kind"), 120)
    assert "not met" in text and "cannot be said" in text and "breaks a constraint" in text
    assert not any(word in text for word in ("None", "nan", "inf"))
    assert max(map(len, text.splitlines())) <= 120


# -- what is asked for -------------------------------------------------------------------------


def test_weights_and_limits_are_read() -> None:
    assert weights_of("time=1, memory=0.5,energy=0") == {"time": 1.0, "memory": 0.5, "energy": 0.0}
    for text, value in (
        ("memory=6GiB", 6 * 2**30),
        ("memory=6 GB", 6e9),
        ("time=2min", 120.0),
        ("time=1.5e3ms", 1.5),
        ("energy=0.5kWh", 1.8e6),
        ("energy_per_sample=20mJ", 0.02),
        ("loss=-2.5", -2.5),
    ):
        assert limit_of(text, upper=True).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tim=1", "no weight for 'tim'"),
        ("time=-1", "not negative"),
        ("time=nan", "'nan' is no weight"),
        ("time=x", "'x' is no weight"),
        ("time", "'' is no weight"),
        ("time=1,time=2", "two weights"),
        ("time=0", "all weights are 0"),
        ("", "all weights are 0"),
    ],
)
def test_bad_weights_are_told(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        weights_of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memory=6", "memory needs a unit: choose from B, kB"),
        ("memory=6Gib", "'Gib' is no unit of memory"),
        ("time=6GiB", "'GiB' is no unit of time"),
        ("memory=-6GiB", "not negative"),
        ("memory=xGiB", "'xGiB' is no unit of memory"),
        ("loss=low", "loss has no unit: write a number"),
        ("loss=inf", "loss has no unit: write a number"),
        ("loss", "write a name and a value"),
        ("=5", "write a name and a value"),
    ],
)
def test_bad_limits_are_told(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        limit_of(text, upper=True)


def test_an_estimate_of_no_width_has_no_interval() -> None:
    assert Estimate(1.0, 0.0).interval is None and Estimate(1.0, None).interval is None
    assert Estimate(1.0, 0.5).interval == (0.5, 1.5)
