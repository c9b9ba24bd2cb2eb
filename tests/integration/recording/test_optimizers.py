"""What a report says of several optimizers, one after the other or in turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes import processes

pytest.importorskip("torch", reason="torch is not installed")

SCRIPT = """
import json, torch, probe

def train(optimizer, model, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 4)).square().mean().backward()
        optimizer.step()

def one_after_the_other(model):
    adam = torch.optim.Adam(model.parameters())
    train(adam, model, 20)
    train(torch.optim.SGD(model.parameters(), lr=0.1), model, 5)

def in_turns(model):
    adam, other = torch.optim.Adam(model.parameters()), torch.nn.Linear(4, 4)
    sgd = torch.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(6):
        train(sgd, other, 5)
        train(adam, model, 1)

def a_new_one_each_step(model):
    for _ in range(40):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(optimizer, model, 1)
        del optimizer  # the next is where this one was in memory

def many_and_then_a_new_one_each_step(model):
    kept = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(32)]
    for optimizer in kept:
        train(optimizer, model, 1)
    for _ in range(12):  # each where the one before it was in memory
        train(torch.optim.SGD(model.parameters(), lr=0.1), model, 1)

def a_new_one_each_step_and_then_four(model):
    a_new_one_each_step(model)
    kept = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(4)]
    for optimizer in kept:  # each at a place of its own
        train(optimizer, model, 1)

for loop in (
    one_after_the_other,
    in_turns,
    a_new_one_each_step,
    many_and_then_a_new_one_each_step,
    a_new_one_each_step_and_then_four,
):
    with probe.watch(name=loop.__name__) as run:
        loop(torch.nn.Linear(4, 4))
    about = run.report().to_dict()["run"]
    print(json.dumps([about["steps"], about["iterations"], about["optimizers"]]))
"""


def test_steps_and_iterations_of_several_optimizers(tmp_path: Path) -> None:
    done = processes.run(SCRIPT, tmp_path)
    assert done.returncode == 0, done.stderr
    following, turns, new, many, new_and_four = (
        json.loads(line) for line in done.stdout.splitlines()
    )
    assert following == [25, 25, {"Adam 1": 20, "SGD 1": 5}]
    assert turns == [36, 30, {"Adam 1": 6, "SGD 1": 30}]
    steps, iterations, optimizers = new
    # One that is gone may leave its place in memory to the next: these are not told apart.
    assert steps == iterations == 40 and sum(optimizers.values()) in (0, 40)
    steps, iterations, optimizers = many
    assert steps == iterations == sum(optimizers.values()) == 44
    steps, iterations, optimizers = new_and_four
    # One whose place is used again later looks like one that takes turns with those between.
    assert steps == 44 and 42 <= iterations <= 44 and sum(optimizers.values()) in (0, 44)
