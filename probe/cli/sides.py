"""The runs of a comparison's sides, found before its imports, which take a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def find_sides(sides: Sequence[str], directory: str | None) -> list[Path]:
    """The runs of all sides; one of several of a side that is missing is left out.

    Raises:
        UnknownRunError: a side names no run at all.
        UsageError: one of them is a group.
    """
    return [run for side in sides for run in _runs_of(side, directory)]


def _runs_of(side: str, directory: str | None) -> list[Path]:
    from ..errors import UnknownRunError
    from ..store.layout import runs_dir
    from ..store.runs import find_runs, references

    place = runs_dir(directory)
    parts = references(side, place)
    runs: list[Path] = []
    missing = []
    for part in parts:
        try:
            runs += find_runs(part, place)
        except UnknownRunError as error:
            missing.append(error)
    if len(missing) == len(parts):
        raise missing[0]
    return runs
