"""The rows of ``rates``: how busy processors were in each phase, and whether power was capped.

A GPU's units are SM, tensor cores and DRAM; of a rank's process it is the number of CPU cores at
work. The estimator attributes a share of time as it attributes power.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np

from ..attribution.columns import UNATTRIBUTED
from ..attribution.estimate import ACTIVITY, Estimate, estimate
from ..attribution.meter_kinds import CPU_TIME, is_rate
from ..attribution.regression.blocks import DIRECT_J, MIXED_J
from ..attribution.regression.statistics import Statistics
from ..model import Provenance, Source, Status
from ..report.model import RateRow
from ..timeline.phase_totals import PhaseTotals
from ..units import NS_PER_S
from .base import RunAnalysis
from .phase_groups import phase_name


def rates(analysis: RunAnalysis) -> list[RateRow]:
    """Rows of every meter that tells a share, phase by phase."""
    rows = []
    for meter in analysis.meters:
        if is_rate(meter.source):
            totals = analysis.owner_of(meter.source)
            statistics = analysis.statistics_of(meter.source, totals)
            if totals is not None and statistics is not None:
                rows += (
                    analysis.faults.attempt(
                        meter.source,
                        "its phases are not told apart",
                        partial(_rows, meter.source, totals, analysis.run, statistics),
                    )
                    or []
                )
    return rows


def _rows(
    source: Source, phases: PhaseTotals, run: tuple[int, int], statistics: Statistics
) -> list[RateRow]:
    run_s = (run[1] - run[0]) / NS_PER_S
    return rate_rows(
        source,
        phases.seconds,
        lambda code: phase_name(code, phases),
        run_s,
        statistics,
        phases.counts,
    )


def rate_rows(
    source: Source,
    phase_s: Mapping[int, float],
    name: Callable[[int], str],
    run_s: float,
    statistics: Statistics,
    counts: Mapping[int, int],
) -> list[RateRow]:
    """One row per phase; none if the run was too short.

    Values are in [0, 1]; of CPU time they are cores, and have no upper end.

    Args:
        phase_s: seconds in each phase of the rank, by code.
        name: of a phase.
        run_s: length of the run.
        statistics: of the source and the rank's spans.
        counts: instances of each phase, by code.
    """
    seconds = dict(phase_s)
    seconds[UNATTRIBUTED] = max(0.0, run_s - sum(seconds.values()))
    never = statistics.mixed_rows > 0 and not statistics.ledger[[MIXED_J, DIRECT_J]].any()
    estimated = None if never else estimate(statistics, None, seconds, ACTIVITY)
    if estimated is None and not never:
        return []
    if estimated is not None and source.quantity == CPU_TIME and source.resolution_s:
        estimated = _counted_late(estimated, seconds, counts, source.resolution_s)
    rows = []
    highest = inf if source.quantity == CPU_TIME else 1.0
    for code, time_s in seconds.items():
        value, interval, status = 0.0, (0.0, 0.0), Status.RESOLVED
        if estimated is not None:
            status = Status.NOT_IDENTIFIABLE
            if code in estimated.codes and time_s > 0:
                share = estimated.of(code)
                status = share.status
                value, low, high = (
                    min(highest, max(0.0, amount / time_s))
                    for amount in (share.energy_j, share.low_j, share.high_j)
                )
                interval = low, high
        stated = status is not Status.NOT_IDENTIFIABLE
        rows.append(
            RateRow(
                device=source.device,
                quantity=source.quantity,
                source=source.id,
                phase=name(code),
                time_s=time_s,
                value=value if stated else None,
                interval=interval if stated else None,
                status=status,
                provenance=Provenance.ESTIMATED,
            )
        )
    return rows


def _counted_late(
    estimated: Estimate, seconds: Mapping[int, float], counts: Mapping[int, int], tick_s: float
) -> Estimate:
    """The estimate with the error of CPU time that the kernel counts at its ticks.

    What a phase ends with is counted up to a tick late, so in the next phase. The regression does
    not average that: it separates phases by the few readings at their borders. So both phases get
    a whole tick as an error, once for each instance and at the rate of the busiest phase.
    """
    spent = np.array([seconds.get(code, 0.0) for code in estimated.codes])
    instances = np.array([counts.get(code, 0) for code in estimated.codes])
    busiest = float(np.max(estimated.energy_j[spent > 0] / spent[spent > 0], initial=0.0))
    late_s = tick_s * busiest * instances
    return replace(estimated, cov=estimated.cov + np.diag((late_s / estimated.quantile) ** 2))
