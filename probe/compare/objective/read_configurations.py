"""Configurations from the store: each a name, an id, or several with commas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...errors import UsageError
from ...store.layout import runs_dir
from ..groups import runs_of_side
from .run_cost import run_cost
from .scores import Configuration


def configurations(
    references: Sequence[str], directory: str | Path | None = None
) -> list[Configuration]:
    """Read the finished runs of each configuration.

    Raises:
        UsageError: there is no such run, or none of a configuration finished.
        StoreError: a run cannot be read.
    """
    where = runs_dir(directory)
    read: list[Configuration] = []
    seen: dict[str, str] = {}
    for reference in references:
        costs = [run_cost(path) for path in dict.fromkeys(runs_of_side(reference, where, []))]
        finished = [cost for cost in costs if cost.finished]
        if not finished:
            raise UsageError(f"{reference!r} has no finished run")
        names = {cost.name for cost in finished}
        name = names.pop() if len(names) == 1 else reference
        for cost in finished:
            if cost.run in seen:
                raise UsageError(f"{cost.run} is in {seen[cost.run]!r} and in {reference!r}")
            seen[cost.run] = reference
        taken = {configuration.name for configuration in read}
        read.append(Configuration(reference if name in taken else name or reference, finished))
    return read
