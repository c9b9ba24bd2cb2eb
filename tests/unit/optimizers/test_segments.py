"""Placements against every plan there is, and a simulation of forward and backward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from optimizers.analysis.segments import METHODS, Chain, Dropped, added, choose, least, peak


def every_plan(length: int, at: int = 0, ends: tuple[int, ...] = ()) -> Iterator[Dropped]:
    if at == length:
        yield ()
        return
    for rest in every_plan(length, at + 1, ends):
        yield rest  # this layer is kept
    for end in range(at + 1, length + 1):
        for rest in every_plan(length, end, ends):
            yield (range(at, end), *rest)
        if end in ends:
            break


def simulated(chain: Chain, dropped: Dropped) -> float:
    """Bytes held, event by event: forward layer by layer, then backward from the last one."""
    of = {layer: segment for segment in dropped for layer in segment}
    needed = list(chain.needed) or [True] * len(chain)
    outputs = list(chain.outputs) or [0.0] * len(chain)
    held: dict[tuple[str, int], float] = {("rest", 0): chain.rest}
    worst = chain.rest
    for layer in range(len(chain)):
        is_first = layer in of and layer == of[layer][0]
        if layer not in of:
            held["inside", layer] = chain.kept[layer]
        if is_first or (layer not in of and needed[layer]):
            held["tensor", layer] = chain.inputs[layer]
        worst = max(worst, sum(held.values()))
    for layer in reversed(range(len(chain))):
        if layer in of and layer == of[layer][-1]:
            for again in of[layer]:
                held["inside", again] = chain.kept[again]
                if needed[again]:
                    held["tensor", again] = chain.inputs[again]
        if outputs[layer]:  # one tensor with the next layer's input
            held["tensor", layer + 1] = outputs[layer]
        worst = max(worst, sum(held.values()))
        del held["inside", layer]
        held.pop(("tensor", layer + 1), None)
        if not layer or not outputs[layer - 1]:  # else the layer before asks for it too
            held.pop(("tensor", layer), None)
    assert held == {("rest", 0): chain.rest}
    return worst


def chain_of(seed: int, length: int, ends: tuple[int, ...] = ()) -> Chain:
    random = np.random.default_rng(seed)
    inputs = random.integers(1, 20, length).astype(float)
    kept = inputs * random.uniform(0, 7, length)
    asks = random.random(length) < 0.5
    outputs = np.where(asks, [*inputs[1:], 7.0], 0.0)
    needed = [bool(random.random() < 0.7 or (i and outputs[i - 1])) for i in range(length)]
    seconds = random.uniform(0.1, 3, length).tolist()
    return Chain(kept.tolist(), inputs.tolist(), seconds, 5.0, needed, outputs.tolist(), ends)


@pytest.mark.parametrize("seed", range(3))
def test_the_peak_is_that_of_a_simulation(seed: int) -> None:
    chain = chain_of(seed, 7)
    for plan in every_plan(7):
        assert peak(chain, plan) == pytest.approx(simulated(chain, plan))


@pytest.mark.parametrize(
    ("seed", "length", "ends"),
    [
        (0, 4, ()),
        (1, 7, (3, 7)),
        (2, 9, ()),
        (3, 12, ()),
        (4, 12, (5, 12)),
        (5, 12, ()),
        (1, 8, (2, 5, 8)),
        (3, 8, (2, 5, 8)),
    ],
)
def test_the_optimum_is_that_of_all_plans(seed: int, length: int, ends: tuple[int, ...]) -> None:
    chain = chain_of(seed, length, ends)
    plans = [
        (simulated(chain, plan), sum(chain.seconds[i] for segment in plan for i in segment))
        for plan in every_plan(length, ends=ends)
    ]
    lowest = min(bytes_ for bytes_, _ in plans)
    highest = simulated(chain, ())
    assert least(chain) == pytest.approx(lowest)
    for share in (0.0, 0.1, 0.4, 0.8, 1.0):
        budget = lowest + share * (highest - lowest) + 1e-9
        best = min(seconds for bytes_, seconds in plans if bytes_ <= budget)
        plan = choose(chain, budget, "optimal")
        assert plan is not None
        assert added(chain, plan) == pytest.approx(best, rel=1e-5, abs=1e-9)
        for method in METHODS:
            plan = choose(chain, budget, method)
            if plan is not None:
                assert simulated(chain, plan) <= budget + 1e-9
                assert added(chain, plan) >= best - 1e-9
                for segment in plan:
                    assert not any(segment[0] < end <= segment[-1] for end in ends)
    for method in METHODS:
        assert choose(chain, lowest - 1.0, method) is None


def test_chen_on_equal_layers_is_the_square_root() -> None:
    chain = Chain([0.0] * 16, [1.0] * 16, [1.0] * 16)
    plan = choose(chain, 7, "chen")  # the last segment is kept
    assert plan is not None and [len(segment) for segment in plan] == [4, 4, 4]
    assert choose(chain, 6, "chen") is None


def test_chen_is_the_best_of_its_own_kind() -> None:
    """Over all thresholds, tried one after the other."""
    for seed in range(6):
        chain = chain_of(seed, 10)
        budget = 0.6 * peak(chain, ())
        own = [
            inside + (given if needed else 0.0)
            for inside, given, needed in zip(chain.kept, chain.inputs, chain.needed, strict=True)
        ]
        best = np.inf
        for threshold in np.linspace(0, sum(own), 4_000):
            segments, begin, held = [], 0, 0.0
            for layer, bytes_ in enumerate(own):
                held += bytes_
                if held > threshold:
                    segments.append(range(begin, layer + 1))
                    begin, held = layer + 1, 0.0
            plan = tuple(segments[:-1] if begin == len(chain) else segments)
            if simulated(chain, plan) <= budget:
                best = min(best, added(chain, plan))
        chosen = choose(chain, budget, "chen")
        assert (np.inf if chosen is None else added(chain, chosen)) == pytest.approx(best)
