"""The job's processes, as psutil sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LIST_EVERY = 5  # calls between two looks for new children: walking /proc is the costly part


def outermost(pids: Iterable[int]) -> list[Any]:
    """The living processes of ``pids`` that do not descend from another of them.

    A sum over process trees would count the others twice.
    """
    import psutil

    living: dict[int, Any] = {}
    ancestors: dict[int, set[int]] = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            ancestors[pid] = {parent.pid for parent in process.parents()}
        except psutil.Error:
            continue
        living[pid] = process
    return [process for pid, process in living.items() if not ancestors[pid] & living.keys()]


class Tree:
    """A psutil process that looks for its children only at every ``LIST_EVERY``-th call."""

    def __init__(self, process: Any):
        self._process = process
        self._calls = 0
        self._children: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)

    def children(self, recursive: bool = False) -> list[Any]:
        """As psutil's; some of them may have ended since. Raises psutil.Error."""
        if self._calls % LIST_EVERY == 0:
            self._children = self._process.children(recursive=recursive)
        self._calls += 1
        return list(self._children)
