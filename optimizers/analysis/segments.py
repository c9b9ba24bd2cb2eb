"""Which segments of a chain of layers to run again, so that activations fit a budget.

A plan cuts the chain into parts. A part that is kept holds all that its layer keeps for backward; a
segment that is dropped holds its first layer's input, and its activations come back, all at once,
when backward reaches it. So at the backward of a part the plan holds what all parts before it hold,
and that part's own activations: the largest of these sums is its peak. Every dropped layer runs its
forward once more. (torch's ``checkpoint`` can carry out these plans. Checkmate's schedules may run
a layer several times or drop across segments; nothing in torch does that.)

``greedy``   single layers, most bytes per second of running again first
``chen``     Chen et al. 2016, algorithm 3: segments that are closed when they exceed b bytes, the
             best b; every segment but the last is dropped
``optimal``  the least time of all plans that fit: a mixed-integer linear program over all segments,
             solved by HiGHS (scipy); after Jain et al. 2020 (Checkmate), with what torch can do
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Method = Literal["greedy", "chen", "optimal"]
MOST_LAYERS = 60  # of the program: some 1,900 segments; more take minutes
_SECONDS = 30.0  # that the solver may take
_GAP = 1e-6  # to the optimum, as a share


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers that follow each other: bytes that each keeps, bytes of its input, forward seconds.

    ``rest``: bytes kept outside of them.
    """

    kept: Sequence[float]
    inputs: Sequence[float]
    seconds: Sequence[float]
    rest: float = 0.0

    def __len__(self) -> int:
        return len(self.kept)


Dropped = tuple[range, ...]
"""Segments that are dropped, in order; all other layers are kept."""


def peak(chain: Chain, dropped: Dropped) -> float:
    """Bytes of activations at the worst moment of backward."""
    held, worst = chain.rest, chain.rest
    for part, is_dropped in _parts(len(chain), dropped):
        own = sum(chain.kept[layer] for layer in part)
        worst = max(worst, held + own + (chain.inputs[part[0]] if is_dropped else 0))
        held += chain.inputs[part[0]] if is_dropped else own
    return worst


def added(chain: Chain, dropped: Dropped) -> float:
    """Seconds of forward that run again."""
    return float(sum(chain.seconds[layer] for segment in dropped for layer in segment))


def _parts(length: int, dropped: Dropped) -> list[tuple[range, bool]]:
    begins = {segment[0]: segment for segment in dropped}
    parts, at = [], 0
    while at < length:
        segment = begins.get(at, range(at, at + 1))
        parts.append((segment, at in begins))
        at = segment[-1] + 1
    return parts


def choose(chain: Chain, budget: float, method: Method) -> Dropped | None:
    """The segments to drop; None if no plan of this method fits the budget."""
    if peak(chain, ()) <= budget:
        return ()
    return _METHODS[method](chain, budget)


def greedy(chain: Chain, budget: float) -> Dropped | None:
    """Drop layer after layer, those first that give back most bytes per second."""
    saved = [max(0.0, a - b) for a, b in zip(chain.kept, chain.inputs, strict=True)]
    order = sorted(range(len(chain)), key=lambda i: chain.seconds[i] / max(saved[i], 1.0))
    chosen: list[int] = []
    for layer in order:
        chosen.append(layer)
        dropped = tuple(range(i, i + 1) for i in sorted(chosen))
        if peak(chain, dropped) <= budget:
            return dropped
    return None


def chen(chain: Chain, budget: float) -> Dropped | None:
    """The plan of least time over all b; of equal ones that of the lowest peak."""
    sums = np.concatenate([[0.0], np.cumsum(chain.kept)])
    sizes = np.unique(sums[:, None] - sums[None, :])
    plans = {_closed_after(chain, size) for size in sizes[sizes >= 0].tolist()}
    fitting = [plan for plan in plans if peak(chain, plan) <= budget]
    return min(fitting, key=lambda plan: (added(chain, plan), peak(chain, plan)), default=None)


def _closed_after(chain: Chain, size: float) -> Dropped:
    """Segments that are closed once they hold more than ``size``; the last one is kept."""
    segments, begin, held = [], 0, 0.0
    for layer, bytes_ in enumerate(chain.kept):
        held += bytes_
        if held > size:
            segments.append(range(begin, layer + 1))
            begin, held = layer + 1, 0.0
    if begin == len(chain):  # else layers are left that no segment was closed over
        segments = segments[:-1]
    return tuple(segments)


def optimal(chain: Chain, budget: float) -> Dropped | None:
    """Solve the program: which edges of a path through the chain, from layer to layer.

    An edge i → j is a dropped segment of the layers i … j − 1, or a kept layer. Exactly one edge
    leaves each place that the path reaches; at the backward of a chosen edge all edges before it
    and its own activations fit the budget.

    Raises:
        ValueError: the chain is longer than ``MOST_LAYERS``.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    n = len(chain)
    if n > MOST_LAYERS:
        raise ValueError(f"{n} layers: the program takes up to {MOST_LAYERS}")
    kept = np.asarray(chain.kept, float)
    edges = [(i, i + 1, False) for i in range(n)]
    edges += [(i, j, True) for i in range(n) for j in range(i + 1, n + 1)]
    own = np.array([kept[i:j].sum() for i, j, _ in edges])
    inputs = np.array([chain.inputs[i] for i, _, _ in edges])
    drops = np.array([is_dropped for *_, is_dropped in edges])
    held = np.where(drops, inputs, own)
    live = np.where(drops, own + inputs, own)
    seconds = np.array(
        [sum(chain.seconds[i:j]) if is_dropped else 0.0 for i, j, is_dropped in edges]
    )
    unit = max(budget, 1.0)  # the solver's tolerances are absolute
    begins, ends = (np.array([edge[k] for edge in edges]) for k in (0, 1))
    flow = np.array(
        [(begins == place).astype(float) - (ends == place) for place in range(n)]
    )  # what leaves each place less what reaches it
    flow[0] = begins == 0
    room = (budget - chain.rest) / unit
    most = held.sum() / unit + 1.0
    memory = np.array([np.where(ends <= begin, held, 0.0) / unit for begin in begins.tolist()])
    memory[np.arange(len(edges)), np.arange(len(edges))] += live / unit + most
    solved = milp(
        seconds / max(seconds.max(), 1e-30),
        integrality=np.ones(len(edges)),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(flow, np.eye(n)[0], np.eye(n)[0]),
            LinearConstraint(memory, -np.inf, room + most),
        ],
        options={"time_limit": _SECONDS, "mip_rel_gap": _GAP},
    )
    if solved.x is None:
        return None
    chosen = [edges[place] for place in np.flatnonzero(solved.x > 0.5).tolist()]
    return tuple(range(i, j) for i, j, is_dropped in sorted(chosen) if is_dropped)


_METHODS: dict[Method, Callable[[Chain, float], Dropped | None]] = {
    "greedy": greedy,
    "chen": chen,
    "optimal": optimal,
}
METHODS: tuple[Method, ...] = tuple(_METHODS)
