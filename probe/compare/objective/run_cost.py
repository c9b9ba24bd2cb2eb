"""What one run cost, as it was recorded: the terms and the constraints of the objective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...model import RunStatus
from ...report.build import run_report
from ...report.model import Report
from ...store.reader import Logged, RunReader

LAST = 20  # steps over which loss and gradient are averaged at the end of a run
_EVALUATED = "eval_"


@dataclass(frozen=True, slots=True)
class RunCost:
    """The terms of one run and what may be constrained; None where it was not recorded.

    ``memory_bytes`` is of the process or GPU that took most, ``energy_j`` is measured, ``gradient``
    is ‖∇L‖ at the end; ``metrics`` are the last values of all that it logged.
    """

    run: str
    name: str
    finished: bool
    time_s: float
    memory_bytes: float | None
    energy_j: float | None
    gradient: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def quantity(self, name: str) -> float | None:
        """A term (time, memory, energy), ``gradient``, or a metric: its evaluated value first."""
        terms = {
            "time": self.time_s,
            "memory": self.memory_bytes,
            "energy": self.energy_j,
            "gradient": self.gradient,
        }
        if name in terms:
            return terms[name]
        return self.metrics.get(f"{_EVALUATED}{name}", self.metrics.get(name))


def run_cost(path: Path) -> RunCost:
    """Read a run directory. Raises StoreError if it cannot be read."""
    report = run_report(path)
    reader = RunReader(path)
    values = {rank: reader.values(rank) for rank in reader.ranks()}
    first = values[min(values)] if values else {}
    return RunCost(
        run=report.run.id,
        name=report.run.name,
        finished=report.run.status == RunStatus.FINISHED,
        time_s=report.run.duration_s,
        memory_bytes=_memory(report, values.values()),
        energy_j=report.total.energy_j,
        gradient=_gradient(first, report.run.ranks),
        metrics=_last_values(first),
    )


def _last_values(logged: Mapping[str, Logged]) -> dict[str, float]:
    """Of evaluations the last one; of what is logged every step the mean of the last ones."""
    last = {}
    for name, (_, values) in logged.items():
        if len(values):
            value = float(values[-1] if name.startswith(_EVALUATED) else np.mean(values[-LAST:]))
            if math.isfinite(value):
                last[name] = value
    return last


def _memory(report: Report, logged: Iterable[Mapping[str, Logged]]) -> float | None:
    """What the trainer logged at its end, else the highest that was seen in any phase."""
    peaks = [
        float(np.max(values["peak_memory_bytes"][1]))
        for values in logged
        if "peak_memory_bytes" in values
    ]
    if peaks:
        return max(peaks)
    for quantity in ("allocated", "used", "resident"):
        held = [row.peak_bytes for row in report.memory if row.quantity == quantity]
        if held:
            return max(held)
    return None


def _gradient(values: Mapping[str, Logged], ranks: int) -> float | None:
    """‖∇L‖ over the last steps whose variance was logged.

    The norm of a step's gradient holds noise as well: ‖∇L‖² ≈ ‖ḡ‖² − σ²/n, n gradients a step.
    """
    if "grad_norm" not in values or "grad_variance" not in values or "k" not in values:
        return None
    norm, variance, k = (values[name][1][-LAST:] for name in ("grad_norm", "grad_variance", "k"))
    if not len(norm) == len(variance) == len(k):
        return None
    square = norm**2 - variance / (k * ranks)
    finite = square[np.isfinite(square)]
    return math.sqrt(max(float(np.mean(finite)), 0.0)) if len(finite) else None
