"""Comparisons and ablations, computed once for everybody who asks the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from probe.compare import compare
from probe.errors import UsageError
from probe.store import files
from probe.store.layout import RUN_FILE
from probe.store.runs import find_runs

_KEPT = 16
_LONGEST_REFERENCE = 2000
_RESULT = "result.json"  # of `probe ablate`


class Comparisons:
    """Of the runs of one directory. Safe to use from many threads; one is computed at a time."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._lock = threading.Lock()
        self._answers: OrderedDict[object, dict[str, Any]] = OrderedDict()

    def compare(self, base: str, others: Sequence[str], target: str | None) -> dict[str, Any]:
        """The JSON of ``probe compare``.

        Raises:
            UsageError, StoreError: it cannot be made, and why.
        """
        for reference in (base, *others):
            self._check(reference)
        with self._lock:
            key = (base, tuple(others), target, self._stamps(base, *others))
            answer = self._answers.get(key)
            if answer is None:
                answer = self._answers[key] = compare(
                    base, list(others), directory=self._directory, target=target or None
                )
                while len(self._answers) > _KEPT:
                    self._answers.popitem(last=False)
            return answer

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
        """Names and ids of this directory only: a path must not lead out of it."""
        parts = [part.strip() for part in reference.split(",")]
        if len(reference) > _LONGEST_REFERENCE or any(
            "/" in part or "\0" in part or part.startswith((".", "~")) for part in parts
        ):
            raise UsageError("write a run's name or id, or several with commas")

    def _stamps(self, *references: str) -> tuple[object, ...]:
        runs = [run for reference in references for run in find_runs(reference, self._directory)]
        return tuple((run.name, _modified(run / RUN_FILE)) for run in runs)


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
