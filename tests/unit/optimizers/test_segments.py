"""Placements against every plan there is, and a simulation of forward and backward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from optimizers.analysis.segments import METHODS, Chain, Dropped, added, choose, peak


def every_plan(length: int, at: int = 0) -> Iterator[Dropped]:
    if at == length:
        yield ()
        return
    for rest in every_plan(length, at + 1):
        yield rest  # this layer is kept
    for end in range(at + 1, length + 1):
        for rest in every_plan(length, end):
            yield (range(at, end), *rest)


def simulated(chain: Chain, dropped: Dropped) -> float:
    """Bytes held, event by event: forward layer by layer, then backward from the last one."""
    of = {layer: segment for segment in dropped for layer in segment}
    held: dict[object, float] = {"rest": chain.rest}
    worst = chain.rest
    for layer in range(len(chain)):
        if layer not in of:
            held[layer] = chain.kept[layer]
        elif layer == of[layer][0]:
            held["input", layer] = chain.inputs[layer]
        worst = max(worst, sum(held.values()))
    for layer in reversed(range(len(chain))):
        if layer in of and layer == of[layer][-1]:
            for again in of[layer]:
                held[again] = chain.kept[again]
            worst = max(worst, sum(held.values()))
        del held[layer]
        held.pop(("input", layer), None)
    assert held == {"rest": chain.rest}
    return worst


def chain_of(seed: int, length: int) -> Chain:
    random = np.random.default_rng(seed)
    inputs = random.integers(1, 20, length).astype(float)
    kept = inputs * random.uniform(1, 8, length)
    return Chain(kept.tolist(), inputs.tolist(), random.uniform(0.1, 3, length).tolist(), 5.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_peak_is_that_of_a_simulation(seed: int) -> None:
    chain = chain_of(seed, 7)
    for plan in every_plan(7):
        assert peak(chain, plan) == pytest.approx(simulated(chain, plan))


@pytest.mark.parametrize(("seed", "length"), [(0, 4), (1, 7), (2, 9), (3, 12), (4, 12)])
def test_the_optimum_is_that_of_all_plans(seed: int, length: int) -> None:
    chain = chain_of(seed, length)
    plans = [(peak(chain, plan), added(chain, plan), plan) for plan in every_plan(length)]
    lowest = min(bytes_ for bytes_, *_ in plans)
    highest = peak(chain, ())
    for share in (0.0, 0.1, 0.4, 0.8, 1.0):
        budget = lowest + share * (highest - lowest)
        best = min(seconds for bytes_, seconds, _ in plans if bytes_ <= budget + 1e-9)
        found = choose(chain, budget + 1e-9, "optimal")
        assert found is not None and peak(chain, found) <= budget + 1e-6
        assert added(chain, found) == pytest.approx(best, rel=1e-5, abs=1e-9)
        for method in METHODS:
            plan = choose(chain, budget + 1e-9, method)
            if plan is not None:
                assert peak(chain, plan) <= budget + 1e-9
                assert added(chain, plan) >= best - 1e-9
    assert choose(chain, lowest - 1.0, "optimal") is None


def test_chen_on_equal_layers_is_the_square_root() -> None:
    chain = Chain([1.0] * 16, [1.0] * 16, [1.0] * 16)
    plan = choose(chain, 7, "chen")  # the last segment is kept
    assert plan is not None and [len(segment) for segment in plan] == [4, 4, 4]
    assert choose(chain, 6, "chen") is None


def test_chen_is_the_best_of_its_own_kind() -> None:
    """Over all thresholds, tried one after the other."""
    for seed in range(6):
        chain = chain_of(seed, 10)
        budget = 0.6 * peak(chain, ())
        best = np.inf
        for threshold in np.linspace(0, sum(chain.kept), 4_000):
            segments, begin, held = [], 0, 0.0
            for layer, bytes_ in enumerate(chain.kept):
                held += bytes_
                if held > threshold:
                    segments.append(range(begin, layer + 1))
                    begin, held = layer + 1, 0.0
            plan = tuple(segments[:-1] if begin == len(chain) else segments)
            if simulated(chain, plan) <= budget:
                best = min(best, added(chain, plan))
        found = choose(chain, budget, "chen")
        assert (np.inf if found is None else added(chain, found)) == pytest.approx(best)
