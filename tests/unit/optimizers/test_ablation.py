"""Games of known values, and which stacks an ablation trains."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optimizers.ablation.design import Design, valid
from optimizers.ablation.effects import evaluate
from optimizers.ablation.runner import Ablation
from optimizers.ablation.shapley import interactions, orders, sampled_orders, subsets, values
from optimizers.ablation.text import render
from optimizers.errors import UsageError
from probe.compare.run_record import EARLY, LATE, Joint, Stage, Trial, Use
from probe.compare.sides import Question
from probe.target import Target


def anything(_some: frozenset[str]) -> bool:
    return True


def game(worth: Mapping[str, float], players: str) -> dict[frozenset[str], np.ndarray]:
    """Worths by the players' letters."""
    return {some: np.array(float(worth["".join(sorted(some))])) for some in subsets(players)}


def test_the_glove_game() -> None:
    """One left glove, two right ones; a pair is worth 1 (Shapley values 2/3, 1/6, 1/6)."""
    pair = {
        some: float("l" in some and len(some) > 1)
        for some in ("", "l", "q", "r", "lq", "lr", "qr", "lqr")
    }
    shapley = values(game(pair, "lqr"), orders("lqr", anything))
    assert {name: float(value) for name, value in shapley.items()} == pytest.approx(
        {"l": 2 / 3, "q": 1 / 6, "r": 1 / 6}, abs=1e-12
    )


def test_the_airport_game() -> None:
    """Who needs the longer runway pays for it: costs 1, 3, 6 → 1/3, 1/3 + 1, 1/3 + 1 + 3."""
    cost = {"a": 1.0, "b": 3.0, "c": 6.0}
    worth = {some: np.array(max((cost[p] for p in some), default=0.0)) for some in subsets("abc")}
    shapley = values(worth, orders("abc", anything))
    assert [float(shapley[p]) for p in "abc"] == pytest.approx([1 / 3, 4 / 3, 13 / 3], abs=1e-12)


def test_sets_that_cannot_play() -> None:
    """b needs a: of six orders three remain, and the values still add up to all."""

    def can(some: frozenset[str]) -> bool:
        return "b" not in some or "a" in some

    through = orders("abc", can)
    assert set(through) == {("a", "b", "c"), ("a", "c", "b"), ("c", "a", "b")}
    worth = {some: np.array(float(len(some) ** 2)) for some in subsets("abc") if can(some)}
    shapley = values(worth, through)
    # Gains by place are 1, 3, 5.
    assert float(shapley["a"]) == pytest.approx((1 + 1 + 3) / 3)
    assert float(shapley["b"]) == pytest.approx((3 + 5 + 5) / 3)
    assert sum(map(float, shapley.values())) == pytest.approx(9.0)


def test_cells_are_attributed_together_and_add_up_both_ways() -> None:
    rng = np.random.default_rng(0)
    worth = {some: rng.normal(size=7) if some else np.zeros(7) for some in subsets("abcd")}
    shapley = values(worth, orders("abcd", anything))
    table = np.array([shapley[p] for p in "abcd"])
    assert np.allclose(table.sum(0), worth[frozenset("abcd")], atol=1e-12)
    assert table.sum() == pytest.approx(worth[frozenset("abcd")].sum())


def test_sampled_values_cover_the_exact_ones() -> None:
    """Seven players with interactions; blocks draw orders of their own, the interval covers."""
    names, rng = "abcdefg", np.random.default_rng(1)
    alone = dict(zip(names, rng.normal(5, 2, 7), strict=True))
    both = {frozenset(p): rng.normal(0, 1) for p in itertools.combinations(names, 2)}

    def worth(some: frozenset[str]) -> float:
        return sum(alone[p] for p in some) + sum(v for p, v in both.items() if p <= some)

    by_subset = {some: np.array(worth(some)) for some in subsets(names)}
    exact = {p: alone[p] + sum(v for pair, v in both.items() if p in pair) / 2 for p in names}
    hits = 0
    for trial in range(60):
        blocks = []
        for block in range(5):
            chance = random.Random(f"{trial} {block}")
            sampled = values(by_subset, sampled_orders(names, anything, 8, chance))
            noise = rng.normal(0, 0.2)
            blocks.append([float(sampled[p]) + noise for p in names])
        each = np.array(blocks)
        half = 2.776 * each.std(0, ddof=1) / math.sqrt(5)
        hits += int(
            sum(abs(m - exact[p]) <= h for m, h, p in zip(each.mean(0), half, names, strict=True))
        )
    assert 0.90 <= hits / (60 * 7) <= 0.99


def test_interactions() -> None:
    """a and b make 10 only together; c is independent."""
    worth = {
        some: np.array(10.0 * ({"a", "b"} <= some) + 3.0 * ("c" in some)) for some in subsets("abc")
    }
    by_pair = {pair: float(value) for pair, value in interactions(worth, "abc").items()}
    assert by_pair == pytest.approx({("a", "b"): 10.0, ("a", "c"): 0.0, ("b", "c"): 0.0})
    lacking = {some: value for some, value in worth.items() if some != {"a"}}
    assert ("a", "b") in interactions(lacking, "abc")  # from the sets with c
    assert float(interactions(lacking, "abc")["a", "b"]) == pytest.approx(10.0)


# -- designs -----------------------------------------------------------------------------------


def names(design: Design) -> list[str]:
    return [arm.name for arm in design.arms(0)]


def test_designs() -> None:
    three = ("schedule", "precision", "clipping")
    assert names(Design.of("cumulative", three, 3)) == [
        "baseline",
        "no-op",
        "schedule",
        "schedule+precision",
        "schedule+precision+clipping",
    ]
    assert names(Design.of("leave-one-out", three, 3)) == [
        "baseline",
        "no-op",
        "schedule+precision+clipping",
        "precision+clipping",
        "schedule+clipping",
        "schedule+precision",
    ]
    assert len(names(Design.of("shapley", three, 3))) == 8 + 1


def test_order_is_random_in_every_block_and_the_same_when_asked_again() -> None:
    design = Design.of("shapley", ("schedule", "precision", "clipping"), 3)
    arms = [[arm.name for arm in design.order(block)] for block in range(3)]
    assert arms[0] != arms[1] and sorted(arms[0]) == sorted(arms[1])
    assert arms == [[arm.name for arm in design.order(block)] for block in range(3)]


def test_more_than_five_are_sampled() -> None:
    six = ("schedule", "precision", "clipping", "accumulation", "checkpointing", "fused")
    design = Design.of("shapley", six, 2)
    assert not design.exact and len(design.arms(0)) < 2**6
    sets = {arm.techniques for arm in design.arms(1)}
    assert all(frozenset(order[:n]) in sets for order in design.joining(1) for n in range(7))


@pytest.mark.parametrize(
    ("kind", "techniques", "blocks", "said"),
    [
        ("half", ("precision",), 3, "choose from cumulative"),
        ("cumulative", (), 3, "name the techniques"),
        ("cumulative", ("precision", "precision"), 3, "named twice"),
        ("cumulative", ("precisoin",), 3, "no technique is called 'precisoin'"),
        ("cumulative", ("paper",), 3, "no technique is called 'paper'"),
        ("cumulative", ("precision",), 0, "at least 1"),
        ("shapley", ("powersgd", "topk"), 3, "does not go with"),
    ],
)
def test_designs_that_cannot_be_run(
    kind: str, techniques: tuple[str, ...], blocks: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        Design.of(kind, techniques, blocks)


def test_a_stack_can_run_or_not() -> None:
    assert valid(frozenset()) and valid(frozenset({"precision"}))
    assert not valid(frozenset({"powersgd", "topk"}))


# -- what it found -----------------------------------------------------------------------------

SAVED = {"schedule": 0.0, "precision": 100.0, "clipping": -20.0}  # joules, of 1000


def trial(arm: frozenset[str], block: int, extra: float = 0.0) -> Trial:
    rng = np.random.default_rng([block, len(arm), sum(map(ord, "".join(sorted(arm))))])
    joules = 1000 + 10 * block - sum(SAVED[name] for name in arm) + rng.normal(0, 2) + extra
    stages = {
        stage: Stage(
            part * 1000,
            {
                "forward": Use(part * 10, part * joules * 0.7),
                "optimizer": Use(part * 3, part * joules * 0.3),
            },
        )
        for stage, part in ((EARLY, 1 / 3), (LATE, 2 / 3))
    }
    return Trial(
        id=f"{sorted(arm)}{block}{extra}", block=str(block), stages=stages, meters=frozenset({"u"})
    )


def trials(design: Design, no_op: float = 0.0) -> dict[str, list[Trial]]:
    return {
        arm.name: [
            trial(
                arm.techniques,
                block,
                no_op if arm.name == "no-op" else 0.5 * (arm.name == "baseline") * (block - 1),
            )
            for block in range(design.blocks)
        ]
        for arm in design.arms(0)
    }


def test_shapley_finds_who_did_it() -> None:
    design = Design.of("shapley", tuple(SAVED), 5)
    result = evaluate(design, range(5), trials(design), Question())
    stored = result.to_dict()
    assert stored["sound"] is True and stored["shapley"]["orders"] == 6
    by_technique = {row["technique"]: row for row in stored["shapley"]["energy_j"]["techniques"]}
    assert {name: row["verdict"] for name, row in by_technique.items()} == {
        "schedule": "no evidence",
        "precision": "gain",
        "clipping": "loss",
    }
    for name, row in by_technique.items():
        low, high = row["interval"]
        assert low <= SAVED[name] <= high
        assert sum(cell["gain"] for cell in row["cells"]) == pytest.approx(row["gain"], abs=1e-9)
    assert all(
        row["verdict"] == "no evidence" for row in stored["shapley"]["energy_j"]["interactions"]
    )


@pytest.mark.full
def test_shapley_calls_no_gain_where_quality_or_the_target_was_lost() -> None:
    design = Design.of("shapley", tuple(SAVED), 5)
    made = trials(design)
    good = {name: [replace(t, quality=0.9) for t in side] for name, side in made.items()}
    question = Question(metric="accuracy", higher=True)
    shapley = evaluate(design, range(5), good, question).to_dict()["shapley"]
    assert shapley["worse_in_quality"] == []
    bad = good | {"precision": [replace(t, quality=0.8) for t in good["precision"]]}
    result = evaluate(design, range(5), bad, question)
    stored = result.to_dict()
    verdicts = {
        row["technique"]: row["verdict"] for row in stored["shapley"]["energy_j"]["techniques"]
    }
    assert stored["shapley"]["worse_in_quality"] == ["precision"]
    assert verdicts == {"schedule": "no evidence", "precision": "no evidence", "clipping": "loss"}
    assert "precision is worse in quality" in render(result)
    missed = {
        name: [replace(t, reached=name != "precision") for t in side] for name, side in good.items()
    }
    result = evaluate(design, range(5), missed, Question(Target("accuracy", True, 0.9)))
    stored = result.to_dict()
    assert stored["shapley"]["refused"] == "the target was missed by 5 trials"
    assert stored["shapley"]["energy_j"] is None and "missed by 5 trials" in render(result)


def test_what_no_run_could_tell_apart_is_null_and_not_zero() -> None:
    design = Design.of("shapley", ("precision",), 3)
    blind = {
        name: [
            replace(
                t,
                stages={
                    key: Stage(s.samples, s.phases | {"data": Use(1.0, None)}, Joint(3.0, 0.0, 9.0))
                    for key, s in t.stages.items()
                },
            )
            for t in side
        ]
        for name, side in trials(design).items()
    }
    result = evaluate(design, range(3), blind, Question())
    stored = result.to_dict()
    shapley = stored["shapley"]
    place = shapley["cells"].index({"stage": "early", "class": "waiting"})
    (row,) = shapley["energy_j"]["techniques"]
    assert row["cells"][place]["gain"] is None and "—" in render(result)
    assert sum(c["gain"] or 0.0 for c in row["cells"]) == pytest.approx(row["gain"])
    assert shapley["time_s"]["techniques"][0]["cells"][place]["gain"] == pytest.approx(0.0)


def test_shapley_is_of_the_same_work() -> None:
    """A stack that trained a tenth more at the same price per sample has lost nothing."""
    design = Design.of("shapley", ("precision",), 3)
    more = {
        name: [
            replace(
                t,
                stages={
                    key: Stage(
                        1.1 * s.samples,
                        {
                            p: Use(1.1 * u.time_s, 1.1 * (u.energy_j or 0.0))
                            for p, u in s.phases.items()
                        },
                    )
                    for key, s in t.stages.items()
                },
            )
            if name == "precision"
            else t
            for t in side
        ]
        for name, side in trials(design).items()
    }
    plain, scaled = (
        evaluate(design, range(3), each, Question()).to_dict()["shapley"]["energy_j"]
        for each in (trials(design), more)
    )
    assert scaled["techniques"][0]["gain"] == pytest.approx(plain["techniques"][0]["gain"])


def test_a_no_op_that_does_something_makes_it_unsound() -> None:
    design = Design.of("cumulative", tuple(SAVED), 3)
    assert evaluate(design, range(3), trials(design), Question()).sound is True
    assert (
        evaluate(design, range(3), trials(design, no_op=80.0), Question()).to_dict()["sound"]
        is False
    )
    first_of_each = {name: side[:1] for name, side in trials(design).items()}
    assert evaluate(design, [0], first_of_each, Question()).sound is None


def test_left_out() -> None:
    design = Design.of("leave-one-out", tuple(SAVED), 3)
    result = evaluate(design, range(3), trials(design), Question())
    stored = result.to_dict()
    gains = {row["technique"]: row["gain"]["energy_j"] for row in stored["left_out"]}
    assert gains["precision"]["gain"] == pytest.approx(100, abs=10)
    assert (gains["precision"]["verdict"], gains["clipping"]["verdict"]) == ("gain", "loss")


def test_steps_add_up() -> None:
    design = Design.of("cumulative", tuple(SAVED), 3)
    result = evaluate(design, range(3), trials(design), Question())
    stored = result.to_dict()
    gained = [row["step"]["energy_j"]["gain"] for row in stored["steps"]]
    assert sum(gained) == pytest.approx(stored["steps"][-1]["in_all"]["energy_j"]["gain"])


def test_the_secrets_of_its_command_are_not_stored(tmp_path: Path) -> None:
    words = ["true", "--stack", "{stack}", "--seed={seed}", "--api-key", "Zk93xQv7LmT2pRw8"]
    design = Design.of("cumulative", ["clipping"], 2)
    Ablation(tmp_path, design, words)
    assert "Zk93xQv7LmT2pRw8" not in (tmp_path / "ablation.json").read_text()
    assert Ablation(tmp_path, design, words).command == words  # the same words go on with it
    with pytest.raises(UsageError, match="give the same techniques and words again"):
        Ablation.open(tmp_path).run(print)
