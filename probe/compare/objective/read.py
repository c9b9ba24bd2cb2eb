"""What one run cost, and what it logged: numbers by the name of the quantity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...model import Provenance
from ...target import Target
from ..progress import Logged, Quality
from ..read_run import MARKS, Recording
from ..run_record import Trial
from .quantities import GRADIENT_NORM, GRADIENT_VARIANCE

LAST = 20  # steps at the end of a run over which ‖∇L‖ and σ² are averaged


MISSED = "the target was missed"


@dataclass(frozen=True, slots=True)
class RunCost:
    """One run: ``values`` by quantity in s, B and J; ``missing`` says why one is not there.

    ``block`` names what it shares with a run of another configuration (its seed), ``meters`` are
    those that measured its energy and ``meter_error`` how far they may be off, as a share.
    """

    id: str
    values: Mapping[str, float]
    missing: Mapping[str, str] = field(default_factory=dict)
    block: str | None = None
    modelled_j: float | None = None
    meters: frozenset[str] = frozenset()
    meter_error: float = 0.0

    def value(self, quantity: str) -> float | None:
        """Of a cost or a metric; an evaluation's metric goes before that of the steps."""
        name = f"eval_{quantity}" if f"eval_{quantity}" in self.values else quantity
        return self.values.get(name)

    def reason(self, quantity: str) -> str:
        """Why there is no such value."""
        return self.missing.get(quantity, "not logged")


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one configuration."""

    name: str
    runs: Sequence[RunCost]


def run_cost(recording: Recording, target: Target | None) -> tuple[RunCost, Trial]:
    """Read a finished run until its target, or its end. Raises StoreError.

    Returns:
        Its costs, and the trial that ``probe compare`` would make of it.
    """
    trial = recording.trial(target, None, dict.fromkeys(MARKS))
    costs, missing = costs_of(trial)
    metrics = {
        name: quality.last
        for name in recording.logged
        if (quality := Quality.of(name, True, recording.logged, recording.work)) is not None
    }
    noise = gradient(recording.logged, trial.ranks)
    if not noise:
        for name in (GRADIENT_NORM, GRADIENT_VARIANCE):
            missing[name] = "not logged"
    return (
        RunCost(
            trial.id,
            metrics | noise | costs,
            missing,
            trial.block,
            trial.energy_j if trial.energy is Provenance.MODELLED else None,
            trial.meters if trial.energy is Provenance.MEASURED else frozenset(),
            trial.meter_error,
        ),
        trial,
    )


def costs_of(trial: Trial) -> tuple[dict[str, float], dict[str, str]]:
    """Time, memory and measured energy of a trial; and why one of them is not known."""
    costs: dict[str, float] = {}
    missing: dict[str, str] = {}
    joules = trial.energy_j if trial.energy is Provenance.MEASURED else None
    if joules is None:
        why = "no meter measured it" + (", a model did" if trial.energy is not None else "")
        missing |= dict.fromkeys(("energy", "energy_per_sample"), why)
    if trial.reached is False:
        # What it used so far only bounds what reaching the target costs.
        missing |= dict.fromkeys({"time", "energy"} - set(missing), MISSED)
    if "time" not in missing:
        costs["time"] = trial.time_s
    if joules is not None and "energy" not in missing:
        costs["energy"] = joules
    if trial.samples > 0:
        costs["time_per_sample"] = trial.time_s / trial.samples
        if joules is not None:
            costs["energy_per_sample"] = joules / trial.samples
    else:
        none_trained = dict.fromkeys(("time_per_sample", "energy_per_sample"), "it has no steps")
        missing = none_trained | missing
    if "peak" in trial.memory:
        costs["memory"] = trial.memory["peak"]
    else:
        missing["memory"] = "not recorded"
    return costs, missing


def gradient(logged: Logged, ranks: int) -> dict[str, float]:
    """‖∇L‖ and σ² over the last steps of which both were logged; empty without any.

    The norm of a step's gradient holds noise as well, so ‖∇L‖² is estimated by ‖ḡ‖² − σ²/n with
    n micro-batches over all ranks (:mod:`optimizers.training.variance` logs them).
    """
    if not {"grad_norm", "grad_variance", "k"} <= logged.keys():
        return {}
    norm, variance, k = (logged[name][1][-LAST:] for name in ("grad_norm", "grad_variance", "k"))
    if not len(norm) == len(variance) == len(k):
        return {}
    square = norm**2 - variance / (k * ranks)
    finite = np.isfinite(square)
    if not finite.any():
        return {}
    return {
        GRADIENT_NORM: math.sqrt(max(float(np.mean(square[finite])), 0.0)),
        GRADIENT_VARIANCE: float(np.mean(variance[finite])),
    }
