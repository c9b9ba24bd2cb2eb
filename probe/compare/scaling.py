"""How throughput and energy go with the number of ranks (the paper's Table IV)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from ..model import Phase, Provenance
from .model import ScalingRow
from .run_record import Trial


def scaling(base: Sequence[Trial], other: Sequence[Trial]) -> list[ScalingRow]:
    """One row per number of ranks, the fewest first.

    Where runs of ``other`` differ in their ranks, of those alone: the base may differ in more.
    ``energy_per_sample_j`` is None if not measured in all runs, ``communication`` of one rank, and
    where no time was seen in it, as in compiled graphs.
    """
    rows: list[ScalingRow] = []
    apart = len({trial.ranks for trial in other}) > 1
    timed = [
        trial
        for trial in ([*other] if apart else [*base, *other])
        if trial.time_s and trial.samples
    ]
    for ranks in sorted({trial.ranks for trial in timed}):
        some = [trial for trial in timed if trial.ranks == ranks]
        throughput = fmean(trial.samples / trial.time_s for trial in some)
        per_rank = throughput / ranks
        fewest = rows[0].throughput / rows[0].ranks if rows else per_rank
        measured = all(trial.energy is Provenance.MEASURED for trial in some)
        waited = fmean(trial.spent(Phase.COMMUNICATION) / trial.time_s for trial in some)
        rows.append(
            ScalingRow(
                ranks=ranks,
                runs=len(some),
                unit=some[0].unit,
                throughput=throughput,
                efficiency=per_rank / fewest,
                energy_per_sample_j=fmean((trial.energy_j or 0.0) / trial.samples for trial in some)
                if measured
                else None,
                communication=waited or None if ranks > 1 else None,
            )
        )
    return rows
