"""Checkmate's optimum against a search through every schedule, one operation after the other."""

from __future__ import annotations

import heapq
import itertools

import numpy as np
import pytest

from optimizers.analysis.free_schedule import MOST_LAYERS_FREE, bound
from optimizers.analysis.segments import Chain, added, choose, least, peak

Item = tuple[str, int]


def shortest(chain: Chain, budget: float) -> float | None:
    """Dijkstra over (backward done, forward done, what is held); layers may run at any time.

    Unlike the program there are no stages: a layer may run as often as it helps, in any order, and
    any tensor may be dropped at any moment.
    """
    n = len(chain)

    def size(held: frozenset[Item]) -> float:
        return chain.rest + sum(
            chain.inputs[layer] if kind == "input" else chain.kept[layer] for kind, layer in held
        )

    numbers = itertools.count()
    first = frozenset({("input", 0)})
    queue: list[tuple[float, int, int, bool, frozenset[Item]]] = [(0.0, 0, n, False, first)]
    settled: set[tuple[int, bool, frozenset[Item]]] = set()
    while queue:
        cost, _, waiting, is_done, held = heapq.heappop(queue)
        if waiting == 0:
            return cost - sum(chain.seconds)  # the forward itself
        if (waiting, is_done, held) in settled:
            continue
        settled.add((waiting, is_done, held))

        def reach(cost: float, waiting: int, is_done: bool, held: frozenset[Item]) -> None:
            heapq.heappush(queue, (cost, next(numbers), waiting, is_done, held))

        for item in held:
            reach(cost, waiting, is_done, held - {item})
        last = waiting - 1
        asked = frozenset({("input", last), ("inside", last)})
        out = chain.outputs[last] if chain.outputs else 0.0
        if is_done and asked <= held and size(held) + out <= budget:
            reach(cost, last, is_done, held - asked)
        for layer in range(waiting):
            if ("input", layer) not in held:
                continue
            made = {("input", layer + 1)} if layer + 1 < waiting else set()
            for kept in ({("inside", layer)}, set()):
                for given in (held, held - {("input", layer)}):  # freed at once, if unneeded
                    after = given | made | kept
                    if size(after) <= budget:
                        done = is_done or layer == n - 1
                        reach(cost + chain.seconds[layer], waiting, done, after)
    return None


def chain_of(seed: int, length: int, *, with_outputs: bool = False) -> Chain:
    random = np.random.default_rng(seed)
    inputs = random.integers(1, 20, length).astype(float).tolist()
    kept = [x * random.uniform(0.5, 7) for x in inputs]
    outputs = [*inputs[1:], 3.0] if with_outputs else []
    return Chain(kept, inputs, random.uniform(0.1, 3, length).tolist(), 5.0, (), outputs)


@pytest.mark.parametrize(
    ("seed", "length", "with_outputs"),
    [(0, 2, False), (1, 3, True), (2, 4, False), (3, 4, True), (4, 4, False), (5, 5, False)],
)
def test_the_bound_is_that_of_every_schedule(seed: int, length: int, with_outputs: bool) -> None:
    chain = chain_of(seed, length, with_outputs=with_outputs)
    lowest, highest = least(chain), peak(chain, ())
    for share in (-0.3, -0.1, 0.0, 0.15, 0.4, 0.7, 1.0):
        budget = lowest + share * (highest - lowest) + 1e-9
        expected, solved = shortest(chain, budget), bound(chain, budget)
        if expected is None:
            assert solved is None
        else:
            assert solved is not None and solved.exact
            assert solved.seconds == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("seed", [25, 27, 31, 83])
def test_an_input_on_its_way_to_a_later_layer_takes_room(seed: int) -> None:
    """Chains on which the optimum would be lower if it did not."""
    random = np.random.default_rng(seed)
    inputs = random.integers(1, 20, 4).astype(float).tolist()
    kept = [size * random.uniform(0.05, 2) for size in inputs[::-1]]
    chain = Chain(kept, inputs, random.uniform(0.1, 3, 4).tolist(), 5.0)
    lowest, highest = least(chain), peak(chain, ())
    for share in (-0.1, 0.0, 0.15):
        budget = lowest + share * (highest - lowest) + 1e-9
        expected, solved = shortest(chain, budget), bound(chain, budget)
        assert (solved is None) == (expected is None)
        if solved is not None:
            assert solved.seconds == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_a_schedule_that_torch_cannot_carry_out_may_add_less_and_never_more() -> None:
    less = 0
    for seed in range(12):
        chain = chain_of(seed, 8, with_outputs=bool(seed % 2))
        budget = 0.6 * least(chain) + 0.4 * peak(chain, ()) + 1e-9
        solved, plan = bound(chain, budget), choose(chain, budget, "optimal")
        assert solved is not None and plan is not None
        assert solved.seconds <= added(chain, plan) + 1e-6
        less += solved.seconds < 0.99 * added(chain, plan)
    assert less


def test_a_long_chain_is_refused() -> None:
    with pytest.raises(ValueError, match="up to 12"):
        bound(chain_of(0, MOST_LAYERS_FREE + 1), 1e9)
