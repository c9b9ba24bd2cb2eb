"""The paper's objective (1)–(3): what a configuration costs, whether it may, and what beats it.

    C = w₁ T/T₀ + w₂ M/M₀ + w₃ E/E₀   subject to  L ≤ L_target, M ≤ M_budget, ‖∇L‖ ≤ ε

Seconds, bytes and joules cannot be added, so each term is divided by the base's: C of the base is
the sum of the weights. A configuration is all runs of one name; what is computed of them are means
with intervals. Energy is what meters measured, never a model's.

The flow: :mod:`configurations` finds the runs, :mod:`read` makes numbers of each,
:mod:`intervals` says how sure their means are, :mod:`front` who beats whom, :mod:`evaluate` puts
it into the types of :mod:`model`, :mod:`text` writes it. ``probe objective`` and the dashboard both
begin here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Limit, ObjectiveReport


def objective(
    references: Sequence[str],
    weights: Mapping[str, float] | None = None,
    limits: Sequence[Limit] = (),
    front: Sequence[str] = (),
    *,
    directory: str | Path | None = None,
    target: str | None = None,
) -> ObjectiveReport:
    """Read runs and evaluate the objective of each configuration; the first one is the base.

    Args:
        references: of each configuration an id, a name (all runs of that name), ``latest``, or
            several with commas.
        weights, limits, front: as :meth:`configurations.Configurations.evaluated` takes them.
        directory: where runs are kept (``./runs``).
        target: ``"loss<=0.5"``, up to which time and energy count; by default that of the runs.

    Raises:
        UsageError: a run does not exist or is named twice, or what is weighed is not known.
        NothingToReport: none of the runs finished.
        StoreError: a run cannot be read.
    """
    from .configurations import Configurations

    read = Configurations.read(references, directory=directory, target=target)
    return read.evaluated(weights, limits, front)
