"""Few Gaps from many failed reads."""

from __future__ import annotations

from ..model import Gap
from ..units import NS_PER_S


class GapLog:
    """Turns the failed reads of one source into few Gaps.

    The first failure is reported at once, so that a reader sees the source go; later
    failures are merged into adjacent gaps of 1, 2, 4, 8 … s, so that a GPU lost for a month is some
    twenty lines, which readers join to one gap.
    """

    __slots__ = ("_begin_ns", "_count", "_piece_ns", "_reason", "failing", "source")

    def __init__(self, source: str, now_ns: int) -> None:
        self.source = source
        self._begin_ns = now_ns  # up to here everything is recorded or reported
        self.failing = False  # the last read failed
        self._count = 0
        self._piece_ns = NS_PER_S
        self._reason = ""

    def bad(self, now_ns: int, reason: str) -> Gap | None:
        """A read failed at ``now_ns``; returns a gap when one is due."""
        self._count += 1
        self._reason = reason
        if not self.failing:
            self.failing = True
            self._piece_ns = NS_PER_S
            return self._cut(now_ns)
        if now_ns - self._begin_ns < self._piece_ns:
            return None
        self._piece_ns *= 2
        return self._cut(now_ns)

    def good(self, now_ns: int) -> Gap | None:
        """A read worked at ``now_ns``; returns the rest of the gap that it ends."""
        gap = self._cut(now_ns) if self.failing else None
        self.failing = False
        self._begin_ns = now_ns
        return gap

    def _cut(self, now_ns: int) -> Gap:
        gap = Gap(self.source, self._begin_ns, now_ns, self._reason, max(1, self._count))
        self._begin_ns, self._count = now_ns, 0
        return gap
