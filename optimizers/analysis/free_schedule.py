"""How little time any schedule of recomputation could add: Checkmate's optimum, for a chain.

Jain et al. 2020 let every layer run again before the backward of each layer, and every tensor be
held or dropped at any moment. torch carries out segments only (:mod:`segments`), so this is not a
plan but a bound: no plan under the budget adds less, and the distance to it is the price of what
torch can do.

Stage 0 is the forward; stage s is the backward of layer n − s, before which layers may run again in
order. Variables, all 0 or 1: layer k runs in stage s; its input is there when it would run; its
input, and what it keeps inside, are held into stage s. After every layer that may run in a stage,
and at the backward, what is held fits the budget. A tensor that is not needed again is freed at
once, as Checkmate's ``FREE`` does. As in :mod:`segments`, an input counts where backward needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .segments import Chain

MOST_LAYERS_FREE = 12  # some 300 variables; the solver's time grows fast beyond
_GAP = 1e-6

Kind = Literal["run", "present", "input", "inside"]
Terms = dict[int, float]  # coefficient of each variable


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds of forward that no schedule can add less than."""

    seconds: float
    exact: bool  # False: the solver's time was up; the optimum is this or more


@dataclass(slots=True)
class _Program:
    """Variables by kind, stage and layer, and rows ``low ≤ Σ terms ≤ high``."""

    numbers: dict[tuple[Kind, int, int], int] = field(default_factory=dict)
    rows: list[tuple[float, Terms, float]] = field(default_factory=list)

    def variable(self, kind: Kind, stage: int, layer: int) -> int:
        return self.numbers.setdefault((kind, stage, layer), len(self.numbers))

    def at_least(self, low: float, terms: Terms) -> None:
        self.rows.append((low, terms, np.inf))


def bound(chain: Chain, budget: float, seconds: float = 10.0) -> Bound | None:
    """Solve Checkmate's program for the chain; None: no schedule fits the budget.

    Args:
        budget: bytes of activations.
        seconds: that the solver may take.

    Raises:
        ValueError: the chain is longer than ``MOST_LAYERS_FREE``.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_array

    n = len(chain)
    if n > MOST_LAYERS_FREE:
        raise ValueError(f"{n} layers: the free schedule is solved for up to {MOST_LAYERS_FREE}")
    program = _Program()
    _order(program, chain)
    unit = max(budget, 1.0)  # the solver's tolerances are absolute
    for terms, fixed in _moments(program, chain):
        room = (budget - chain.rest - fixed) / unit
        program.rows.append((-np.inf, {v: size / unit for v, size in terms.items()}, room))
    matrix = lil_array((len(program.rows), len(program.numbers)))
    for place, (_, terms, _) in enumerate(program.rows):
        for variable, factor in terms.items():
            matrix[place, variable] = factor
    costs, low = np.zeros(len(program.numbers)), np.zeros(len(program.numbers))
    scale = max(*chain.seconds, 1e-30)
    for (kind, stage, layer), variable in program.numbers.items():
        if kind == "run":
            costs[variable] = chain.seconds[layer] / scale if stage else 0.0
            low[variable] = stage == 0  # the forward runs every layer
    solved = milp(
        costs,
        integrality=np.ones(len(costs)),
        bounds=Bounds(low, 1),
        constraints=LinearConstraint(
            matrix.tocsr(), [row[0] for row in program.rows], [row[2] for row in program.rows]
        ),
        options={"time_limit": seconds, "mip_rel_gap": _GAP},
    )
    if solved.status == 0:
        return Bound(float(solved.fun) * scale, exact=True)
    if solved.status == 1:  # the time is up
        return Bound(max(0.0, float(solved.mip_dual_bound or 0.0)) * scale, exact=False)
    return None


def _stages(n: int) -> Iterator[tuple[int, int]]:
    """Each stage and the last layer that may run in it."""
    yield 0, n - 1
    for stage in range(1, n + 1):
        yield stage, n - stage


def _order(program: _Program, chain: Chain) -> None:
    """What must be there before something else can be."""
    n, of = len(chain), program.variable
    for stage, last in _stages(n):
        for layer in range(last + 1):
            run, present = of("run", stage, layer), of("present", stage, layer)
            program.at_least(0, {present: 1, run: -1})
            # An input comes from an earlier stage or from the layer before, in this stage.
            sources: Terms = {of("input", stage, layer): 1} if stage else {}
            if layer:
                sources[of("run", stage, layer - 1)] = 1
            if layer or stage:  # the first layer's input is given to the forward
                program.at_least(0, sources | {present: -1})
            if layer < (n if stage == 0 else last):  # may be held into the next stage
                program.at_least(0, {present: 1, of("input", stage + 1, layer): -1})
                inside: Terms = {run: 1, of("inside", stage + 1, layer): -1}
                program.at_least(0, inside | ({of("inside", stage, layer): 1} if stage else {}))
        if stage:
            program.at_least(1, {of("inside", stage, last): 1, of("run", stage, last): 1})
            if chain.needs(last):
                program.at_least(1, {of("present", stage, last): 1})


def _moments(program: _Program, chain: Chain) -> Iterator[tuple[Terms, float]]:
    """Bytes after each layer that may run, and at each backward: of variables, and fixed."""
    n, of = len(chain), program.variable
    for stage, last in _stages(n):
        for layer in range(last + 1):
            terms: Terms = {}
            for other in range(last + 1):
                done = other <= layer
                if done and not (stage and other == last):  # held for a later stage
                    terms[of("input", stage + 1, other)] = chain.inputs[other]
                    terms[of("inside", stage + 1, other)] = chain.kept[other]
                elif not done and stage:  # held since an earlier one
                    terms[of("inside", stage, other)] = chain.kept[other]
                    if other > layer + 1:
                        terms[of("input", stage, other)] = chain.inputs[other]
                if other == layer + 1 and chain.needs(other):  # what this layer gave
                    terms[of("present", stage, other)] = chain.inputs[other]
            out = chain.outputs[last] if chain.outputs else 0.0
            at_backward = stage > 0 and layer == last
            yield terms, (chain.own(last) + out if at_backward else 0.0)
