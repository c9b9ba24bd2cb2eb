"""How often to save a training's state: what saving costs against what a failure loses."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model import Phase
from ..report.model import PhaseRow, Report

USUAL_S = 86_400.0  # between two failures, where the run itself had none


def best_interval_s(cost_s: float, failure_s: float) -> float:
    """Seconds of training between two checkpoints that lose least time.

    Daly's estimate ("A higher order estimate of the optimum checkpoint interval", 2006, eq. 37);
    its first term is Young's (1974), √(2·cost·time between failures).

    Args:
        cost_s: of a checkpoint.
        failure_s: mean time between two failures.
    """
    if cost_s >= 2 * failure_s:
        return failure_s
    ratio = cost_s / (2 * failure_s)
    young = math.sqrt(2 * cost_s * failure_s)
    return young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost_s


def between_failures_s(report: Report) -> float:
    """Mean time between failures: of this run's attempts, or a day where it had none."""
    failed = [row for row in report.attempts if row.ended_by]
    trained_s = math.fsum(row.end_s - row.begin_s for row in report.attempts)
    return trained_s / len(failed) if failed and trained_s > 0 else USUAL_S


def checkpoint_cost_s(rows: Sequence[PhaseRow]) -> float | None:
    """Seconds that the training stood still for one checkpoint; None if it saved none."""
    saved = [row for row in rows if row.phase == Phase.CHECKPOINT and row.count and row.time_s > 0]
    return max((row.time_s / row.count for row in saved), default=None)
