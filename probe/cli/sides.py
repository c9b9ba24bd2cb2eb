"""The sides of a comparison, before it is made: runs that have just ended are waited for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def await_sides(sides: Sequence[str], directory: str | None) -> None:
    """Wait for the ends of runs that are just over: one that still goes on would be left out.

    Raises:
        UnknownRunError: a side names no run at all; one of several that is missing is left out.
        UsageError: one of them is a group.
    """
    runs = [run for side in sides for run in _of_side(side, directory)]
    from ..store.seals import await_end  # a third of a second of imports

    for run in runs:
        await_end(run)


def _of_side(side: str, directory: str | None) -> list[Path]:
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
