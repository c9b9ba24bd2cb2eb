"""From knobs to the words of a process, and what is refused in one line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from optimizers.errors import UsageError
from optimizers.search.budget import Budget
from optimizers.search.command_line import CommandLine, placeholders
from optimizers.search.knobs import Choices, Place, Range, read_knobs
from optimizers.search.outcome import Cost
from optimizers.trial_folder import trial_environment

COMMAND = "python train.py --stack {stack} --batch-size {batch} lr={lr} --seed {seed} x".split()


def line(words: Sequence[str], names: str, *given: str) -> CommandLine:
    return CommandLine(words, read_knobs(names, given, placeholders(words)))


def test_settings_become_words_and_the_script_s_own_are_left_out() -> None:
    command = line(COMMAND, "batch,precision,schedule", "lr=log:1e-4..1e-1")
    own = dict.fromkeys(("lr", "batch", "precision", "schedule"))
    command.check()
    assert command.filled(own, 3) == "python train.py --seed 3 x".split()
    changed = own | {"lr": "0.01", "schedule": "schedule"}
    assert command.filled(changed, 4) == (
        "python train.py --stack schedule lr=0.01 --seed 4 x".split()
    )
    both = changed | {"precision": "precision:dtype=bf16", "batch": "64", "lr": None}
    stack = "precision:dtype=bf16+schedule"
    assert command.shown(both) == (
        f"python train.py --stack {stack} --batch-size 64 --seed {{seed}} x".split()
    )


def test_stacks_that_are_tried_are_stacks() -> None:
    """Every value that is known to us, as the trainer reads it."""
    from optimizers import Stack
    from optimizers.search.knobs import technique_names
    from optimizers.stack import discover

    assert set(technique_names()) == set(discover())
    names = ["precision", "accumulation", "optimizer", "schedule", "clipping(norm=2)"]
    for name in names[:4]:
        (knob,) = read_knobs(name, [], {"stack"})
        assert isinstance(knob, Choices) and knob.place is Place.STACK
        for value in knob.values:
            assert Stack.of(value).techniques
    (knob,) = read_knobs("precision(dtype=bf16,mode=master)", [], {"stack"})
    assert isinstance(knob, Choices) and knob.values == ("precision:dtype=bf16:mode=master",)


def test_threads_go_to_the_environment_unless_the_command_has_a_place() -> None:
    command = line(["train", "--seed={seed}"], "", "threads=1,2")
    assert command.filled({"threads": "2"}, 0) == ["train", "--seed=0"]
    assert command.environment({"threads": "2"})["OMP_NUM_THREADS"] == "2"
    assert command.environment({"threads": None}) == {}
    placed = line(["train", "--jobs", "{threads}"], "threads")
    assert placed.filled({"threads": "2"}, 0) == ["train", "--jobs", "2"]
    assert placed.environment({"threads": "2"}) == {}


@pytest.mark.parametrize(
    ("text", "low", "high", "log", "whole"),
    [
        ("lr=log:1e-4..1e-1", 1e-4, 1e-1, True, False),
        ("lr=1..8", 1, 8, False, True),
        ("lr=0.5..1", 0.5, 1, False, False),
        ("lr=log:8..1024", 8, 1024, True, True),
        ("lr=-2..2", -2, 2, False, True),
    ],
)
def test_ranges(text: str, low: float, high: float, log: bool, whole: bool) -> None:
    (knob,) = read_knobs("", [text], {"lr"})
    assert knob == Range("lr", low, high, log, whole)


@pytest.mark.parametrize(
    ("words", "names", "given", "said"),
    [
        ("t --b {batch}", "batsh", [], "did you mean 'batch'?"),
        ("t", "batch", [], "the knob batch has no place in the command: write {batch}"),
        ("t", "", ["lr=1,2"], "the knob lr has no place in the command: write {lr}"),
        ("t --w {width}", "", ["lr=1,2"], "the knob lr has no place"),
        ("t --w {width} --lr {lr}", "", ["lr=1,2"], "{width} has no knob: say its values with"),
        ("t --w {width}", "width", [], "the values of width are not known"),
        ("t", "precision", [], "is a technique and needs {stack}"),
        ("t --stack {stack}", "", ["threads=1,2"], "nothing changes {stack}"),
        ("t", "", [], "name what may be changed"),
        ("t --lr {lr}", "", ["lr"], "write name=1,2,4"),
        ("t --lr {lr}", "", ["lr="], "it has no values"),
        ("t --lr {lr}", "", ["lr=log:0..1"], "the ends are two numbers above 0"),
        ("t --lr {lr}", "", ["lr=2..1"], "the smaller first"),
        ("t --lr {lr}", "", ["lr=1e..2"], "the ends of a range are numbers"),
        ("t --lr {lr}", "", ["lr=1,2", "lr=3"], "the knob lr is there twice"),
        ("t --seed {seed}", "", ["seed=1,2"], "write name=1,2,4"),
        ("t {lr}", "", ["lr=1,2"], "the script's own lr is unknown where {lr} stands"),
        ("t --lr x{lr}", "", ["lr=1,2"], "the script's own lr is unknown"),
    ],
)
def test_what_cannot_be_searched_is_one_line(
    words: str, names: str, given: list[str], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        line(words.split(), names, *given).check()
    assert said in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("3h,2kWh", Budget(3 * 3600, 7.2e6)),
        ("90 min", Budget(5400)),
        ("500kJ", Budget(math.inf, 5e5)),
        ("1.5d", Budget(1.5 * 86400)),
    ],
)
def test_budgets(text: str, budget: Budget) -> None:
    assert Budget.of(text) == budget


@pytest.mark.parametrize("text", ["", "3", "3 parsecs", "0h", "3h,4min", "h", "1e999h", "-3h"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError, match="write a time, an energy or both"):
        Budget.of(text)


def test_a_budget_of_energy_does_not_limit_what_has_none() -> None:
    budget = Budget(100.0)
    assert budget.minus(Cost(30.0, 5.0)) == Budget(70.0)
    assert budget.covers(Cost(100.0, 1e9)) and not budget.covers(Cost(100.1))
    assert Budget(100.0, 10.0).trainings(Cost(10.0, 5.0)) == 2.0


def test_a_trial_below_probe_run_is_a_run_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PROBE_RUN", "PROBE_TASK", "PROBE_RESUME"):
        monkeypatch.setenv(name, "/somewhere")
    monkeypatch.setenv("MY_OWN", "1")
    environment = trial_environment(tmp_path / "runs")
    assert environment["PROBE_DIR"] == str(tmp_path / "runs") and environment["MY_OWN"] == "1"
    assert not {"PROBE_RUN", "PROBE_TASK", "PROBE_RESUME"} & environment.keys()
