"""How throughput and energy go with the number of ranks (the paper's Table IV)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ..model import Phase, Provenance
from .run_record import Trial


def scaling(base: Sequence[Trial], other: Sequence[Trial]) -> list[dict[str, Any]]:
    """One row per number of ranks, the fewest first.

    Where runs of ``other`` differ in their ranks, of those alone: the base may differ in more.
    ``throughput`` is in samples (tokens) per s over all ranks; ``efficiency`` is throughput per
    rank over that of the fewest; ``energy_per_sample_j`` is None if not measured in all runs.
    ``communication`` is the phase's share of time: None of one rank, and where no time was seen in
    it, as in compiled graphs.
    """
    rows: list[dict[str, Any]] = []
    apart = len({trial.ranks for trial in other}) > 1
    timed = [
        trial
        for trial in ([*other] if apart else [*base, *other])
        if trial.time_s and trial.samples
    ]
    for ranks in sorted({trial.ranks for trial in timed}):
        some = [trial for trial in timed if trial.ranks == ranks]
        throughput = fmean(trial.samples / trial.time_s for trial in some)
        first = rows[0] if rows else {"ranks": ranks, "throughput": throughput}
        measured = all(trial.energy is Provenance.MEASURED for trial in some)
        waited = fmean(trial.spent(Phase.COMMUNICATION) / trial.time_s for trial in some)
        rows.append(
            {
                "ranks": ranks,
                "runs": len(some),
                "unit": some[0].unit,
                "throughput": throughput,
                "efficiency": throughput / ranks / (first["throughput"] / first["ranks"]),
                "energy_per_sample_j": fmean(
                    (trial.energy_j or 0.0) / trial.samples for trial in some
                )
                if measured
                else None,
                "communication": waited or None if ranks > 1 else None,
            }
        )
    return rows
