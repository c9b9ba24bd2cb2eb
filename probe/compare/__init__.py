"""Did it pay, in which phase, and how sure is that: runs compared with runs.

    from probe.compare import compare
    report = compare("base", ["bf16"], directory="runs")
    report.comparisons[0].per_sample.verdict         # gain, loss or no evidence
    report.to_dict()                                 # the JSON of `probe compare`

The flow: :mod:`read_run` makes a :class:`run_record.Trial` of each run (:mod:`progress` knows how
far it was, :mod:`read_energy` what it used), :mod:`phase_gains` compares what a sample costs,
phase by phase, :mod:`phase_classes` decides on the base what kind of work a phase is, :mod:`cells`
adds up stage × class, :mod:`statistics` and :mod:`quantity` compute how sure the differences are,
:mod:`comparison` puts all of it into the types of :mod:`model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..target import Target
    from .model import ComparisonReport

TOLERANCE = 0.005  # how much worse the final quality may be, as a share


def compare(
    base: str,
    others: Sequence[str],
    *,
    directory: str | Path | None = None,
    target: str | Target | None = None,
    tolerance: float = TOLERANCE,
    same_task: bool = False,
) -> ComparisonReport:
    """Compare runs with a base.

    Args:
        base, others: each a directory, an id, a name (all runs of that name), or several with
            commas. Where a name itself holds commas, the longest name that a run has is taken.
        directory: where runs are kept (``./runs``).
        target: ``"loss<=0.5"``; by default the one that the runs were given.
        tolerance: a gain does not count if the final quality is worse by more than this share.
        same_task: compare different models that do the same job, held to their quality.

    Raises:
        UsageError: a side does not exist, did not finish, or mixes what cannot be mixed.
        StoreError: a run cannot be read.
    """
    from .groups import Campaign

    campaign = Campaign.of(base, others, directory=directory, target=target)
    return campaign.compared(tolerance, same_task=same_task)
