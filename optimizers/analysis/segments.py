"""Which segments of a chain of layers to run again, so that activations fit a budget.

A plan cuts the chain into parts. A part that is kept holds all that its layer keeps for backward; a
segment that is dropped holds its first layer's input, and its activations come back, all at once,
when backward reaches it. So at the backward of a part the plan holds what all parts before it hold,
and that part's own activations: the largest of these sums is its peak. Every dropped layer runs its
forward once more. (torch's ``checkpoint`` can carry out these plans. Checkmate's schedules may run
a layer several times or drop across segments; nothing in torch does that: :mod:`free_schedule` says
how much they would save.)

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
_TOLERANCE = 2e-6  # of the budget, by which the solver may miss a constraint


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers that follow each other, in bytes and seconds of forward.

    A layer's input is often kept twice over: by the layer (a convolution) and by the one before it
    (a ReLU, its output). It is one tensor, so it is counted by itself.
    """

    kept: Sequence[float]  # bytes that each layer keeps, without its input and output
    inputs: Sequence[float]  # bytes of each layer's input
    seconds: Sequence[float]
    rest: float = 0.0  # bytes kept outside of the layers
    needed: Sequence[bool] = ()  # whether anybody keeps the input if nothing is dropped; (): all
    outputs: Sequence[float] = ()  # bytes of its output that a layer's own backward asks for
    ends: Sequence[int] = ()  # places at which a stack ends: no segment reaches across

    def __len__(self) -> int:
        return len(self.kept)

    def needs(self, layer: int) -> bool:
        """True if the layer's input is held when the layer is not dropped."""
        return not self.needed or self.needed[layer]

    def own(self, layer: int) -> float:
        """Bytes of a layer that is kept: its input, if somebody keeps it, and what is inside."""
        return self.kept[layer] + (self.inputs[layer] if self.needs(layer) else 0.0)

    def part(self, begin: int, end: int, dropped: bool) -> tuple[float, float]:
        """Bytes held by the layers ``begin`` … ``end`` − 1 until backward; bytes at their own."""
        own = sum(self.own(layer) for layer in range(begin, end))
        first = self.inputs[begin]
        live = own + (first if dropped and not self.needs(begin) else 0.0)
        out = self.outputs[end - 1] if self.outputs else 0.0
        return (first if dropped else own), live + out

    def segments(self) -> list[tuple[int, int]]:
        """Begin and end of every segment that may be dropped."""
        n = len(self)
        last = [min([end for end in self.ends if end > i], default=n) for i in range(n)]
        return [(i, j) for i in range(n) for j in range(i + 1, last[i] + 1)]


Dropped = tuple[range, ...]
"""Segments that are dropped, in order; all other layers are kept."""


def peak(chain: Chain, dropped: Dropped) -> float:
    """Bytes of activations at the worst moment of backward."""
    before, worst = chain.rest, chain.rest
    for part, is_dropped in _parts(len(chain), dropped):
        held, live = chain.part(part[0], part[-1] + 1, is_dropped)
        worst = max(worst, before + live)
        before += held
    return worst


def least(chain: Chain) -> float:
    """The lowest peak of all plans: from the last layer on, the best part to begin with."""
    n = len(chain)
    lowest = [np.inf] * n + [0.0]  # peak of the layers from each place on
    parts = [(i, i + 1, False) for i in range(n)] + [(*s, True) for s in chain.segments()]
    for begin, end, dropped in sorted(parts, reverse=True):
        held, live = chain.part(begin, end, dropped)
        lowest[begin] = min(lowest[begin], max(live, held + lowest[end]))
    return chain.rest + float(lowest[0])


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
    saved = [max(0.0, chain.own(i) - chain.inputs[i]) for i in range(len(chain))]
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
    sums = np.cumsum([0.0, *(chain.own(layer) for layer in range(len(chain)))])
    sizes = np.unique(sums[:, None] - sums[None, :])
    plans = {_closed_after(chain, size) for size in sizes[sizes >= 0].tolist()}
    fitting = [plan for plan in plans if peak(chain, plan) <= budget]
    return min(fitting, key=lambda plan: (added(chain, plan), peak(chain, plan)), default=None)


def _closed_after(chain: Chain, size: float) -> Dropped:
    """Segments that are closed once they hold more than ``size``; the last one is kept."""
    segments, begin, held = [], 0, 0.0
    for layer in range(len(chain)):
        held += chain.own(layer)
        if held > size or layer + 1 in chain.ends:
            segments.append(range(begin, layer + 1))
            begin, held = layer + 1, 0.0
    if begin == len(chain):  # else layers are left that no segment was closed over
        segments = segments[:-1]
    return tuple(segments)


def optimal(chain: Chain, budget: float) -> Dropped | None:
    """The plan of least time, by the program.

    Raises:
        ValueError: the chain is longer than ``MOST_LAYERS``.
    """
    if len(chain) > MOST_LAYERS:
        raise ValueError(f"{len(chain)} layers: the program takes up to {MOST_LAYERS}")
    if least(chain) > budget:
        return None
    plan = _solved(chain, budget)
    if plan is None or peak(chain, plan) > budget:  # within the solver's tolerance
        plan = _solved(chain, budget * (1 - _TOLERANCE))
    return plan if plan is not None and peak(chain, plan) <= budget else None


def _solved(chain: Chain, budget: float) -> Dropped | None:
    """Solve the program: which edges of a path through the chain, from layer to layer.

    An edge i → j is a dropped segment of the layers i … j − 1, or a kept layer. Exactly one edge
    leaves each place that the path reaches; at the backward of a chosen edge all edges before it
    and its own activations fit the budget.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    n = len(chain)
    edges = [(i, i + 1, False) for i in range(n)] + [(*s, True) for s in chain.segments()]
    held, live = np.array([chain.part(*edge) for edge in edges]).T
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
