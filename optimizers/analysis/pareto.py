"""What a run cost, by the paper's objective, and which runs no other run beats (eq. 1–3).

    C = w₁ T/T₀ + w₂ M/M₀ + w₃ E/E₀   subject to  L ≤ L_target, M ≤ M_budget, ‖∇L‖ ≤ ε

Each term is divided by the baseline's, or seconds and joules could not be added. T and E are taken
over the run, M is the largest memory that a rank's process (a GPU's allocator) had. The norm of a
step's gradient holds noise as well: ‖∇L‖² is estimated by ‖ḡ‖² − σ²/n, n micro-batches over all
ranks. Runs are read from the store; a run without measured energy has no C that weighs energy.

    from optimizers.analysis import pareto
    print(pareto.table(pareto.score("runs/base", ["runs/a", "runs/b"])))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from probe.report.build import run_report
from probe.store.reader import Logged, RunReader

from ..errors import UsageError

LAST = 20  # steps over which loss and gradient are averaged at the end of a run
_QUALITIES = ("eval_loss", "loss")


@dataclass(frozen=True, slots=True)
class Weights:
    """w₁, w₂, w₃; they need not add up to one."""

    time: float = 1 / 3
    memory: float = 1 / 3
    energy: float = 1 / 3


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run cost; None where it was not measured."""

    run: str
    name: str
    time_s: float
    memory_bytes: float | None
    energy_j: float | None
    loss: float | None
    gradient_norm: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """A run compared with the baseline. ``cost`` is None where a weighed term is missing."""

    cost: float | None
    of: Cost
    broken: tuple[str, ...]  # constraints that do not hold, or cannot be checked
    on_front: bool


def measure(path: str | Path) -> Cost:
    """Read a run directory. Raises StoreError if it cannot be read."""
    path = Path(path)
    report = run_report(path)
    reader = RunReader(path)
    values = {rank: reader.values(rank) for rank in reader.ranks()}
    first = values[min(values)] if values else {}
    memory = [
        float(np.max(logged["peak_memory_bytes"][1]))
        for logged in values.values()
        if "peak_memory_bytes" in logged
    ]
    return Cost(
        run=report.run.id,
        name=report.run.name,
        time_s=report.run.duration_s,
        memory_bytes=max(memory, default=None),
        energy_j=report.total.energy_j,
        loss=_loss(first),
        gradient_norm=_gradient(first, report.run.ranks),
    )


def score(
    baseline: str | Path,
    runs: Sequence[str | Path],
    weights: Weights | None = None,
    *,
    loss_target: float | None = None,
    memory_budget: float | None = None,
    gradient_bound: float | None = None,
) -> list[Score]:
    """The baseline and the runs, cheapest first; those without a cost last.

    Raises:
        UsageError: the baseline lacks what is weighed.
    """
    weights = weights or Weights()
    costs = [measure(baseline), *(measure(run) for run in runs)]
    base = costs[0]
    limits = {"L": loss_target, "M": memory_budget, "‖∇L‖": gradient_bound}
    terms = _terms(base, weights)
    judged = []
    for cost in costs:
        broken = tuple(
            f"{name} {'unknown' if value is None else f'{value:.4g}'} > {limit:.4g}"
            for (name, limit), value in zip(
                limits.items(), (cost.loss, cost.memory_bytes, cost.gradient_norm), strict=True
            )
            if limit is not None and (value is None or value > limit)
        )
        judged.append((cost, broken))
    feasible = [cost for cost, broken in judged if not broken]
    front = {cost.run for cost in pareto(feasible)}
    scores = [
        Score(_cost(cost, base, terms), cost, broken, cost.run in front) for cost, broken in judged
    ]
    return sorted(scores, key=lambda s: (bool(s.broken), math.inf if s.cost is None else s.cost))


def pareto(costs: Sequence[Cost]) -> list[Cost]:
    """The runs that no other beats in time, memory and energy at once; a missing value is ∞."""

    def values(cost: Cost) -> tuple[float, ...]:
        return tuple(
            math.inf if v is None else v for v in (cost.time_s, cost.memory_bytes, cost.energy_j)
        )

    def beaten(cost: Cost) -> bool:
        own = values(cost)
        return any(
            all(a <= b for a, b in zip(values(other), own, strict=True)) and values(other) != own
            for other in costs
        )

    return [cost for cost in costs if not beaten(cost)]


def table(scores: Sequence[Score]) -> str:
    """The scores as a text table, a line for each run."""
    rows = [("run", "C", "time", "memory", "energy", "loss", "‖∇L‖", "")]
    rows += [
        (
            s.of.name or s.of.run,
            _number(s.cost),
            f"{s.of.time_s:.1f} s",
            _number(s.of.memory_bytes and s.of.memory_bytes / 2**20, " MiB"),
            _number(s.of.energy_j, " J"),
            _number(s.of.loss),
            _number(s.of.gradient_norm),
            "; ".join(s.broken) or ("on the front" if s.on_front else ""),
        )
        for s in scores
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(7)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{row[i]:>{widths[i]}}" for i in range(1, 7))
        + (f"  {row[7]}" if row[7] else "")
        for row in rows
    )


def _terms(base: Cost, weights: Weights) -> list[tuple[str, float]]:
    terms = [
        (name, weight)
        for name, weight in (
            ("time_s", weights.time),
            ("memory_bytes", weights.memory),
            ("energy_j", weights.energy),
        )
        if weight
    ]
    for name, _ in terms:
        if not getattr(base, name):
            what = {"energy_j": "measured energy", "memory_bytes": "memory", "time_s": "time"}[name]
            raise UsageError(
                f"the baseline {base.name or base.run} has no {what}: give that term the weight 0"
            )
    return terms


def _cost(cost: Cost, base: Cost, terms: Sequence[tuple[str, float]]) -> float | None:
    values = [(weight, getattr(cost, name), getattr(base, name)) for name, weight in terms]
    if any(value is None for _, value, _ in values):
        return None
    return sum(weight * float(value) / float(unit) for weight, value, unit in values)


def _loss(values: Mapping[str, Logged]) -> float | None:
    for name in _QUALITIES:
        if name in values and len(values[name][1]):
            last = values[name][1]
            return float(last[-1] if name == "eval_loss" else np.mean(last[-LAST:]))
    return None


def _gradient(values: Mapping[str, Logged], ranks: int) -> float | None:
    """‖∇L‖ over the last steps whose variance was logged."""
    if "grad_norm" not in values or "grad_variance" not in values or "k" not in values:
        return None
    norm, variance, k = (values[name][1][-LAST:] for name in ("grad_norm", "grad_variance", "k"))
    if not len(norm) == len(variance) == len(k):
        return None
    square = norm**2 - variance / (k * ranks)
    finite = square[np.isfinite(square)]
    return math.sqrt(max(float(np.mean(finite)), 0.0)) if len(finite) else None


def _number(value: float | None, unit: str = "") -> str:
    return "–" if value is None else f"{value:.4g}{unit}"
