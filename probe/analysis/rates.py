"""The rows of ``rates``: how busy a GPU's units were in each phase, and whether power was capped.

The units are SM, tensor cores and DRAM. The estimator attributes a share of time as it attributes
power.
"""

from __future__ import annotations

from functools import partial

from ..attribution.columns import UNATTRIBUTED
from ..attribution.estimate import ACTIVITY, estimate
from ..attribution.meter_kinds import is_rate
from ..attribution.regression.blocks import DIRECT_J, MIXED_J
from ..attribution.regression.statistics import Statistics
from ..model import Provenance, Source, Status
from ..report.model import RateRow
from ..timeline.phase_totals import PhaseTotals
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
                        partial(rate_rows, meter.source, totals, analysis.run, statistics),
                    )
                    or []
                )
    return rows


def rate_rows(
    source: Source, phases: PhaseTotals, run: tuple[int, int], statistics: Statistics
) -> list[RateRow]:
    """One row per phase, values in [0, 1]; none if the run was too short.

    Args:
        statistics: of the source and the rank's spans.
    """
    seconds = dict(phases.seconds)
    seconds[UNATTRIBUTED] = max(0.0, (run[1] - run[0]) / 1e9 - sum(seconds.values()))
    never = statistics.mixed_rows > 0 and not statistics.ledger[[MIXED_J, DIRECT_J]].any()
    estimated = None if never else estimate(statistics, None, seconds, ACTIVITY)
    if estimated is None and not never:
        return []
    rows = []
    for code, time_s in seconds.items():
        value, interval, status = 0.0, (0.0, 0.0), Status.RESOLVED
        if estimated is not None:
            status = Status.NOT_IDENTIFIABLE
            if code in estimated.codes and time_s > 0:
                share = estimated.of(code)
                status = share.status
                value, low, high = (
                    min(1.0, max(0.0, amount / time_s))
                    for amount in (share.energy_j, share.low_j, share.high_j)
                )
                interval = low, high
        stated = status is not Status.NOT_IDENTIFIABLE
        rows.append(
            RateRow(
                device=source.device,
                quantity=source.quantity,
                source=source.id,
                phase=phase_name(code, phases),
                time_s=time_s,
                value=value if stated else None,
                interval=interval if stated else None,
                status=status,
                provenance=Provenance.ESTIMATED,
            )
        )
    return rows
