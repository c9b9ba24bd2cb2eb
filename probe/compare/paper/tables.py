"""The tables of *Systematic Training Compute Optimization*, from the user's own runs.

The paper's figure is beside each where it states one, never instead of it: what the runs did not
measure is "not measured", communication of one rank "n/a". Columns that the paper lacks are joules
per sample, the energy-delay product and CO2e.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...model import SCHEMA_VERSION
from .. import TOLERANCE
from ..groups import Campaign
from ..model import ComparisonReport
from .rows import (
    Row,
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
) -> dict[str, Any]:
    """All tables as JSON.

    Args:
        base, other: as of :func:`probe.compare.compare`.
        ablation: a folder of ``probe ablate``, for Table III.
        months: over which the gain was made, for the doubling time.

    Raises:
        UsageError, StoreError: as :func:`probe.compare.compare`; the ablation has no result.
    """
    campaign = Campaign.of(base, [other], directory=directory, target=target)
    report = campaign.compared(TOLERANCE)
    result = None
    if ablation is not None:
        try:
            result = json.loads((Path(ablation) / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise UsageError(
                f"{ablation} holds no finished ablation: `probe ablate` first"
            ) from None
    return of_campaign(campaign, report, result, months)


def of_campaign(
    campaign: Campaign,
    report: ComparisonReport,
    ablation: Mapping[str, Any] | None,
    months: float = MONTHS,
) -> dict[str, Any]:
    """From a comparison that was made, and an ablation's result."""
    comparison = report.comparisons[0]
    base, other = (side.trials for side in campaign.sides[:2])
    return {
        "schema": SCHEMA_VERSION,
        "base": asdict(report.base),
        "other": asdict(comparison.other),
        "mode": report.mode,
        "target": None if report.target is None else asdict(report.target),
        "verdict": str(comparison.verdict),
        "reason": comparison.reason,
        "hardware": base[0].is_like.get("hardware", "unknown"),
        "data": base[0].is_like.get("data", "unknown"),
        "settings": {"base": dict(base[0].settings), "other": dict(other[0].settings)},
        "tables": [
            _table("I", "time, memory and quality", results_rows(comparison)),
            _table("II", "what a sample costs", costs_rows(base, other)),
            _table("III", "one technique after the other", ablation_rows(ablation)),
            _table("IV", "scaling over ranks", scaling_rows(base, other)),
            _table("", "where the gain comes from", by_phase_rows(comparison, [*base, *other])),
            _table(
                "",
                "architecture patterns, seconds of forward and backward per sample",
                patterns_rows(base, other),
            ),
            _table(
                "",
                "speed-up and doubling time, eq. (21)–(23)",
                doubling_rows(comparison, other, months),
            ),
        ],
    }


def _table(number: str, title: str, rows: Sequence[Row]) -> dict[str, Any]:
    return {"table": number, "title": title, "rows": list(rows)}
