"""What every technique that is found must do, ours and third parties'."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Stack  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.stack import discover, settings  # noqa: E402
from optimizers.technique import Technique  # noqa: E402

FOUND = discover()
PLANS = [Plan(batch_size=64), Plan(batch_size=64, world=2), Plan(batch_size=64, device="cuda")]


@pytest.fixture(params=sorted(FOUND))
def technique(request) -> Technique:
    return FOUND[request.param]()


def test_the_papers_are_all_there():
    paper = {"accumulation", "schedule", "clipping", "precision", "checkpointing", "zero"}
    assert paper <= FOUND.keys()
    assert {t.name for t in Stack.paper()} == paper


def test_it_says_what_it_is(technique):
    assert isinstance(technique, Technique)
    assert technique.name == type(technique).name and technique.name.isidentifier()
    assert isinstance(technique.equation, str)
    for names in (technique.requires, technique.conflicts, technique.after):
        assert isinstance(names, frozenset) and technique.name not in names
    assert (technique.requires | technique.conflicts) <= FOUND.keys()
    assert type(technique).__doc__


@pytest.mark.parametrize("given", PLANS, ids=["one rank", "two ranks", "cuda"])
def test_planning_is_pure_and_its_claims_are_words(technique, given):
    before = dataclasses.replace(given)
    try:
        plan = technique.plan(given)
    except TechniqueRefused as refused:
        assert "\n" not in str(refused) and technique.name in str(refused)
        return
    assert given == before
    assert isinstance(plan, Plan)
    claim = technique.predicts(plan)
    assert claim and "\n" not in claim
    assert technique.name in Stack([technique]).table(given)
    assert settings(technique) == settings(type(technique)())


@pytest.mark.parametrize("pair", list(itertools.combinations(sorted(FOUND), 2)), ids="+".join)
def test_two_go_together_however_they_are_written_or_not_at_all(pair):
    outcomes = set()
    for names in (pair, pair[::-1]):
        try:
            outcomes.add(tuple(t.name for t in Stack.of(",".join(names))))
        except TechniqueRefused as refused:
            assert all(name in str(refused) for name in pair)
            outcomes.add("refused")
    assert len(outcomes) == 1
