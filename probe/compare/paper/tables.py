"""The tables of *Systematic Training Compute Optimization*, from the user's own runs.

The paper's figure is beside each where it states one, never instead of it: what the runs did not
measure is "not measured", communication of one rank "n/a". Columns that the paper lacks are joules
per sample, the energy-delay product and CO2e.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import TOLERANCE
from ..groups import Campaign
from ..model import ComparisonReport
from .ablation_steps import AblationStep, read_steps
from .model import BothSettings, PaperTable, PaperTables
from .rows import (
    ablation_rows,
    by_phase_rows,
    costs_rows,
    doubling_rows,
    patterns_rows,
    results_rows,
    scaling_rows,
)

MONTHS = 5.0  # over which the paper counts its gain


def tables(
    base: str,
    other: str,
    *,
    directory: str | Path | None = None,
    target: str | None = None,
    ablation: str | Path | None = None,
    months: float = MONTHS,
) -> PaperTables:
    """All tables.

    Args:
        base, other: as of :func:`probe.compare.compare`.
        ablation: a folder of ``probe ablate``, for Table III.
        months: over which the gain was made, for the doubling time.

    Raises:
        UsageError, StoreError: as :func:`probe.compare.compare`; the ablation has no result.
    """
    campaign = Campaign.of(base, [other], directory=directory, target=target)
    report = campaign.compared(TOLERANCE)
    steps = None if ablation is None else read_steps(ablation)
    return of_campaign(campaign, report, steps, months)


def of_campaign(
    campaign: Campaign,
    report: ComparisonReport,
    steps: Sequence[AblationStep] | None,
    months: float = MONTHS,
) -> PaperTables:
    """From a comparison that was made, and the steps of an ablation."""
    comparison = report.comparisons[0]
    base, other = (side.trials for side in campaign.sides[:2])
    return PaperTables(
        base=report.base,
        other=comparison.other,
        mode=report.mode,
        target=report.target,
        verdict=str(comparison.verdict),
        reason=comparison.reason,
        hardware=str(base[0].is_like.get("hardware", "unknown")),
        data=str(base[0].is_like.get("data", "unknown")),
        settings=BothSettings(base[0].settings, other[0].settings),
        tables=[
            PaperTable("I", "time, memory and quality", results_rows(comparison)),
            PaperTable("II", "what a sample costs", costs_rows(base, other)),
            PaperTable("III", "one technique after the other", ablation_rows(steps)),
            PaperTable("IV", "scaling over ranks", scaling_rows(base, other)),
            PaperTable("", "where the gain comes from", by_phase_rows(comparison, [*base, *other])),
            PaperTable(
                "",
                "architecture patterns, seconds of forward and backward per sample",
                patterns_rows(base, other),
            ),
            PaperTable(
                "",
                "speed-up and doubling time, eq. (21)–(23)",
                doubling_rows(comparison, other, months),
            ),
        ],
    )
