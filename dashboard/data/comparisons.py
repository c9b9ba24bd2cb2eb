"""Comparisons and ablations, each computed once for all tabs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probe.compare import compare
from probe.compare.model import ComparisonReport
from probe.compare.objective.configurations import Configurations
from probe.compare.objective.model import Limit, ObjectiveReport
from probe.errors import UsageError
from probe.store import files
from probe.store.layout import RUN_FILE
from probe.store.runs import find_runs

from .cache import Cache

_LONGEST_REFERENCE = 2000
_RESULT = "result.json"  # of `probe ablate`


class Comparisons:
    """Comparisons of the runs of one directory.

    Safe to use from many threads; one comparison is computed at a time.
    """

    def __init__(self, directory: Path):
        self._directory = directory
        self._lock = threading.Lock()
        self._cache = Cache(most=16)

    def compare(self, base: str, others: Sequence[str], target: str | None) -> ComparisonReport:
        """The result of ``probe compare``.

        Raises:
            UsageError, StoreError: it cannot be made, and why.
        """
        for reference in (base, *others):
            self._check(reference)
        with self._lock:
            return self._cache.get(
                (base, tuple(others), target),
                self._stamps(base, *others),
                lambda: compare(
                    base, list(others), directory=self._directory, target=target or None
                ),
            )

    def objective(
        self,
        references: Sequence[str],
        target: str | None,
        weights: Mapping[str, float] | None,
        limits: Sequence[Limit],
    ) -> ObjectiveReport:
        """The result of ``probe objective``; the runs are read once for all weights and limits.

        Raises:
            UsageError, NothingToReport, StoreError: it cannot be made, and why.
        """
        for reference in references:
            self._check(reference)
        with self._lock:
            configurations = self._cache.get(
                ("objective", tuple(references), target),
                self._stamps(*references),
                lambda: Configurations.read(
                    references, directory=self._directory, target=target or None
                ),
            )
        return configurations.evaluated(weights, limits)

    def ablations(self) -> list[dict[str, Any]]:
        """Results of ``probe ablate`` beside the runs, newest first."""
        places = sorted(self._directory.glob(f"*/{_RESULT}"), key=_modified, reverse=True)
        results = []
        for place in places:
            result = files.read_json(place)
            if isinstance(result, dict) and isinstance(result.get("techniques"), list):
                results.append(result | {"folder": place.parent.name})
        return results

    def _check(self, reference: str) -> None:
        """Accept names and ids only: a path could lead out of the directory."""
        parts = [part.strip() for part in reference.split(",")]
        if len(reference) > _LONGEST_REFERENCE or any(
            "/" in part or "\0" in part or part.startswith((".", "~")) for part in parts
        ):
            raise UsageError("write a name or id of a run, or several with commas")

    def _stamps(self, *references: str) -> tuple[object, ...]:
        runs = [run for reference in references for run in find_runs(reference, self._directory)]
        return tuple((run.name, _modified(run / RUN_FILE)) for run in runs)


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
