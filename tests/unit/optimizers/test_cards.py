"""Verdicts of cards, on simulated campaigns of known truth and where none may be given."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optimizers.cards.about import about
from optimizers.cards.analysis import Judged, Pages, file_names, judge
from optimizers.cards.design import BASE, CardDesign
from optimizers.cards.model import GLYPHS, Card, CardSet, Word
from optimizers.cards.page import index, page
from optimizers.cards.quantities import Pairs
from optimizers.cards.trials import CardTrials, Failed
from optimizers.errors import UsageError
from probe.compare.run_record import Trial
from probe.compare.sides import Question
from probe.target import Target
from tests.fakes.simulated_campaign import Technique, campaign

NULL, CHEAPER = Technique(), Technique(seconds=0.9)
TARGET = Question(Target("loss", False, 1.0), metric="loss", higher=False)
WORK = Question(metric="loss", higher=False)
LOSS, PEAK = 2.0, 4e9
AT_FULL_SIZE = pytest.param(400, marks=[] if "PROVE" in os.environ else pytest.mark.full)
MODES = pytest.mark.parametrize("question", [TARGET, WORK], ids=["to target", "equal work"])


def with_noise(
    trials: Sequence[Trial], rng: np.random.Generator, loss: float = LOSS, peak: float = PEAK
) -> list[Trial]:
    """With a peak of memory (CV 1 %) and a final loss (CV 0.1 %), which campaigns leave out."""
    return [
        replace(
            trial,
            memory={"peak": peak * (1 + 0.01 * rng.normal())},
            quality=loss * (1 + 0.001 * rng.normal()),
        )
        for trial in trials
    ]


def judged(
    techniques: Sequence[Technique],
    question: Question,
    seed: int,
    *,
    seeds: int = 5,
    loss: float = LOSS,
    peak: float = PEAK,
) -> list[Judged]:
    """The verdicts on techniques that share the runs of one base."""
    rng = np.random.default_rng([seed, seeds, len(techniques)])
    base: list[Trial] = []
    pairs = {}
    for place, technique in enumerate(techniques):
        without, other = campaign(technique, seeds, rng, equal_work=question.target is None)
        base = base or with_noise(without, rng)
        pairs[str(place)] = Pairs(base, with_noise(other, rng, loss, peak), question)
    return [*judge(pairs)[0].values()]


def words(techniques: Sequence[Technique], question: Question, seeds: range) -> list[list[Word]]:
    return [[each.word for each in judged(techniques, question, seed)] for seed in seeds]


@MODES
@pytest.mark.parametrize("campaigns", [24, AT_FULL_SIZE])
def test_a_technique_that_does_nothing_gets_no_evidence(campaigns: int, question: Question) -> None:
    counted = Counter(word for (word,) in words([NULL], question, range(campaigns)))
    assert counted[Word.NO_EVIDENCE] >= 0.95 * campaigns, counted


@pytest.mark.full
@MODES
@pytest.mark.parametrize("campaigns", [8, AT_FULL_SIZE])
def test_several_that_do_nothing_get_no_more_verdicts_together(
    campaigns: int, question: Question
) -> None:
    """Three cards, twelve questions: a false one anywhere in at most 5 % of the campaigns."""
    wrong = sum(
        any(word is not Word.NO_EVIDENCE for word in each)
        for each in words([NULL] * 3, question, range(campaigns))
    )
    assert wrong <= max(1, 0.05 * campaigns)


@pytest.mark.parametrize("campaigns", [20, AT_FULL_SIZE])
def test_a_tenth_less_time_pays_and_does_so_again_on_fresh_seeds(campaigns: int) -> None:
    first = words([CHEAPER], WORK, range(campaigns))
    fresh = words([CHEAPER], WORK, range(1_000_000, 1_000_000 + campaigns))
    kept = [again for (word,), (again,) in zip(first, fresh, strict=True) if word is Word.PAYS]
    assert len(kept) >= 0.9 * campaigns
    assert kept.count(Word.PAYS) >= 0.9 * len(kept)


def test_a_large_gain_pays_to_the_target_beside_two_that_do_nothing() -> None:
    counted = Counter(
        tuple(each) for each in words([Technique(seconds=0.5), NULL, NULL], TARGET, range(6))
    )
    assert counted[Word.PAYS, Word.NO_EVIDENCE, Word.NO_EVIDENCE] >= 5, counted


@pytest.mark.parametrize(
    ("technique", "loss", "peak", "word", "why"),
    [
        (CHEAPER, LOSS, 1.2 * PEAK, Word.TRADES, "peak memory: "),
        (CHEAPER, 1.02 * LOSS, PEAK, Word.TRADES, "worse (95 %"),
        (Technique(seconds=1.1), LOSS, 0.8 * PEAK, Word.TRADES, "peak memory: "),
        (Technique(seconds=1.1), 0.98 * LOSS, PEAK, Word.TRADES, "better (95 %"),
        (Technique(seconds=1.1), LOSS, PEAK, Word.COSTS, "time: 9"),
        (NULL, 1.02 * LOSS, PEAK, Word.COSTS, "final quality: "),
        (NULL, LOSS, 0.8 * PEAK, Word.NO_EVIDENCE, "; peak memory: "),
        (NULL, 1.003 * LOSS, PEAK, Word.NO_EVIDENCE, "final quality may be "),
    ],
)
def test_words(technique: Technique, loss: float, peak: float, word: Word, why: str) -> None:
    (result,) = judged([technique], WORK, 4, loss=loss, peak=peak)
    assert result.word is word and why in result.reason, result.reason


def test_a_quality_that_may_be_worse_takes_the_gain_away() -> None:
    """Worse by 1 % in the mean, but by chance as far as five seeds show."""
    rng = np.random.default_rng(5)
    base, other = (with_noise(side, rng) for side in campaign(CHEAPER, 5, rng, equal_work=True))
    other = [
        replace(trial, quality=(trial.quality or 0.0) * factor)
        for trial, factor in zip(other, (1.06, 0.97, 1.05, 0.98, 0.99), strict=True)
    ]
    result = judge({"x": Pairs(base, other, WORK)})[0]["x"]
    assert result.word is Word.NO_EVIDENCE
    assert result.reason.startswith("quality: loss is ")
    assert result.measured[0].adjusted_verdict == "gain"  # of time, by itself


def test_one_seed_has_neither_interval_nor_verdict() -> None:
    (result,) = judged([Technique(seconds=0.5)], WORK, 1, seeds=1)
    assert result.word is Word.NO_EVIDENCE and "one seed: no interval" in result.reason
    assert all(row.interval is None and row.p is None for row in result.measured)


def test_what_is_the_same_in_every_pair_is_no_question() -> None:
    rng = np.random.default_rng(1)
    base, other = campaign(CHEAPER, 5, rng, equal_work=True)
    fixed = [[replace(t, memory={"peak": PEAK}) for t in side] for side in (base, other)]
    result, tests = judge({"x": Pairs(*fixed, WORK)})
    assert tests == 2  # time and joules
    assert result["x"].word is Word.PAYS
    always = [fixed[0], [replace(t, memory={"peak": 2 * PEAK}) for t in other]]
    assert judge({"x": Pairs(*always, WORK)})[0]["x"].word is Word.TRADES


def test_without_a_meter_there_are_no_joules() -> None:
    rng = np.random.default_rng(1)
    sides = campaign(CHEAPER, 5, rng, equal_work=True)
    blind = [[replace(trial, energy=None) for trial in side] for side in sides]
    result = judge({"x": Pairs(*blind, WORK)})[0]["x"]
    assert [row.quantity for row in result.measured] == ["time", "memory", "quality"]
    assert result.word is Word.PAYS and "joules" not in result.reason


def test_a_missed_target_and_another_model_give_no_gain() -> None:
    rng = np.random.default_rng(1)
    base, other = campaign(Technique(seconds=0.3), 5, rng)
    missed = [replace(trial, reached=trial.block != "3") for trial in other]
    result = judge({"x": Pairs(base, missed, TARGET)})[0]["x"]
    assert result.word is Word.NO_EVIDENCE and "target missed by 1 of 5" in result.reason
    result = judge({"x": Pairs(base, other, TARGET, ["another model"])})[0]["x"]
    assert result.word is Word.NO_EVIDENCE and "not comparable: another model" in result.reason


# -- the page ------------------------------------------------------------------------------------


def page_of(question: Question, seeds: int) -> str:
    """The page of a technique that halves the time of a sample and needs a fifth fewer of them."""
    (result,) = judged([Technique(0.8, 0.5)], question, 2, seeds=seeds)
    to_target = result.comparison if question is TARGET else None
    card = Card(
        technique="ema",
        stack="ema",
        what="What `it` does.",
        source="Izmailov et al. 2018",
        settings="mode=equal",
        predicts="less <time>",
        verdict=result.word,
        reason=result.reason,
        seeds=seeds,
        failed="",
        measured=result.measured,
        to_target=to_target,
        equal_work=result.comparison,
        page="cards/ema.md",
    )
    cards = CardSet(
        folder="runs/cards",
        command=["python", "train.py", "{stack}", "{seed}"],
        base="baseline",
        seeds=seeds,
        target="loss<=1" if question is TARGET else None,
        metric="loss",
        hardware="a card",
        torch="2",
        python="3",
        tests=4,
        tolerance_percent=0.5,
        cards=[card],
        remarks=[],
    )
    assert (
        json.loads(json.dumps(cards.to_dict(), allow_nan=False))["cards"][0]["technique"] == "ema"
    )
    targets = {"ema": result.report} if question is TARGET else {}
    pages = Pages(cards, targets, {"ema": result.report})
    assert f"| {GLYPHS[card.verdict]} | [`ema`](ema.md) | {card.verdict} |" in index(cards)
    return page(pages, card)


def test_a_page_says_how_much_how_sure_and_by_what() -> None:
    text = page_of(TARGET, 5)
    assert text.startswith("# ✔ `ema`: pays\n\nWhat `it` does.\n\n**pays**: time: 5")
    assert "- Predicted: less &#60;time&#62;" in text
    assert "Seeds, each without and with it: 5 of 5" in text
    decisive, _, rest = text.partition("## To the target, loss&#60;=1")[2].partition("## At equal")
    rows = {line.split(" | ")[0].strip("| "): line for line in decisive.splitlines() if "|" in line}
    for name in ("time", "joules", "peak memory", "final quality (loss)"):
        assert " … " in rows[name], rows[name]
    assert rows["peak memory"].endswith("| no evidence |")
    split = decisive.partition("Progress × cost:")[2].splitlines()
    time_row = next(line for line in split if line.startswith("| time |")).split(" | ")
    assert time_row[6].strip("| ") == "gain"  # by cheaper samples
    assert "## By phase" in rest and "| backward |" in rest


def test_a_page_of_one_seed_has_no_verdict_in_its_tables() -> None:
    text = page_of(WORK, 1)
    assert text.startswith("# ○ `ema`: no evidence")
    assert "| gain |" not in text and "one seed: none" in text


# -- what is trained, and what a technique says of itself --------------------------------------


def test_each_is_trained_alone_on_the_same_base() -> None:
    design = CardDesign.asked(["ema", "sam(rho=0.1)", "sam"], 3, "precision,schedule(floor=0)")
    assert [(arm.name, arm.stack) for arm in design.arms(0)] == [
        (BASE, "precision+schedule:floor=0.0"),
        ("ema", "ema+precision+schedule:floor=0.0"),
        ("sam:rho=0.1", "precision+sam:rho=0.1+schedule:floor=0.0"),
        ("sam", "precision+sam+schedule:floor=0.0"),
    ]
    orders = [[arm.name for arm in design.order(block)] for block in range(3)]
    assert len({*map(tuple, orders)}) > 1 and all(
        sorted(order) == sorted(orders[0]) for order in orders
    )
    assert file_names(["sam:rho=0.1", "sam,rho=0.1", "sam"]) == {
        "sam:rho=0.1": "sam,rho=0.1.md",
        "sam,rho=0.1": "sam,rho=0.1_.md",
        "sam": "sam.md",
    }


@pytest.mark.parametrize(
    ("techniques", "seeds", "base", "says"),
    [
        ([], 5, "baseline", "name the techniques"),
        (["ema", "ema"], 5, "baseline", "named twice"),
        (["ema"], 0, "baseline", "--seeds: at least 1"),
        (["precisoin"], 5, "baseline", "no technique is called 'precisoin'"),
        (["paper"], 5, "baseline", "no technique is called 'paper'"),
        (["ema"], 5, "emaa", "no technique is called 'emaa'"),
        (["ema"], 5, "schedule,ema", "ema is in the base stack"),
        (["schedule"], 5, "paper", "schedule is in the base stack"),
        (["zero"], 5, "compile", "does not go with"),
    ],
)
def test_cards_that_cannot_be_made(techniques: list[str], seeds: int, base: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        CardDesign.asked(techniques, seeds, base)


def test_a_technique_in_its_own_words() -> None:
    run = {"config": {"batch_size": 32, "lr": 0.01}, "accelerators": 0, "ranks": 1}
    ema = about("ema:mode=equal", "ema:mode=equal", run)
    assert ema.what.startswith("The model that is evaluated and kept is an average")
    assert ema.source == "Izmailov et al. 2018; `optimizers.techniques.ema.WeightAverage`"
    assert ema.settings == "mode=equal" and "after 80%" in ema.predicts
    schedule = about("schedule", "paper+schedule:floor=0", run)
    assert schedule.source.startswith("the paper, (10) (11); Chen, Wolfe & Kyrillidis 2021")
    refused = about("zero", "zero:stage=1+precision:dtype=fp16", run)
    assert refused.predicts.startswith("nothing")


def test_a_folder_keeps_its_cards_and_what_failed(tmp_path: Path) -> None:
    command = ["true", "{stack}", "{seed}"]
    trials = CardTrials(tmp_path, CardDesign.asked(["ema", "sam"], 2, "schedule"), command)
    assert CardTrials.open(tmp_path).design == trials.design
    assert [(b, arm.name) for b, arm in trials.missing() if arm.name == "sam"] == [
        (0, "sam"),
        (1, "sam"),
    ]
    (tmp_path / "failed.jsonl").write_text(
        '{"block": 1, "arm": "sam", "why": "no memory"}\n{"block": 0, "arm"'
    )
    assert trials.failed() == {"sam": Failed(1, "sam", "no memory")}
    assert "sam" not in {arm.name for _, arm in trials.missing()}
    with pytest.raises(UsageError, match="holds another set of cards"):
        CardTrials(tmp_path, CardDesign.asked(["ema"], 2, "schedule"), command)


def test_each_word_has_a_glyph_of_its_own() -> None:
    assert GLYPHS.keys() == {*Word} and len({*GLYPHS.values()}) == len(GLYPHS)
