"""Did it pay, where, and how sure is that: runs held against runs.

    from probe.compare import compare
    gains = compare("base", ["bf16"], directory="runs")     # the JSON of `probe compare`

The flow: :mod:`read_run` makes a :class:`run_record.Trial` of each run (:mod:`progress` knows how
far it was, :mod:`read_energy` what it used), :mod:`phase_classes` decides on the base what kind of
work a phase is, :mod:`cells` adds up stage × class, :mod:`statistics` and :mod:`quantity` say how
sure the differences are, :mod:`comparison` writes the JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..target import Target

TOLERANCE = 0.005  # how much worse the final quality may be, as a share


def compare(
    base: str,
    others: Sequence[str],
    *,
    directory: str | Path | None = None,
    target: str | Target | None = None,
    tolerance: float = TOLERANCE,
) -> dict[str, Any]:
    """Hold runs against a base.

    Args:
        base, others: each a directory, an id, a name (all runs so named), or several with commas.
        directory: where runs are kept (``./runs``).
        target: ``"loss<=0.5"``; by default the one that the runs were given.
        tolerance: a gain is none if the final quality is worse by more than this share.

    Raises:
        UsageError: a side is not there, was not finished, or mixes what cannot be mixed.
        StoreError: a run cannot be read.
    """
    from .groups import Campaign

    return Campaign.of(base, others, directory=directory, target=target).compared(tolerance)
