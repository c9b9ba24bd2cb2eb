"""The job's processes, as psutil sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def outermost(pids: Iterable[int]) -> list[Any]:
    """The living processes of ``pids`` that do not descend from another of them.

    Whoever sums over process trees would count the others twice.
    """
    import psutil

    found: dict[int, Any] = {}
    ancestors: dict[int, set[int]] = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            ancestors[pid] = {parent.pid for parent in process.parents()}
        except psutil.Error:
            continue
        found[pid] = process
    return [process for pid, process in found.items() if not ancestors[pid] & found.keys()]
