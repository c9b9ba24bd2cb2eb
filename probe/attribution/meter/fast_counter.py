"""A counter that updates faster than it is read: its updates are dated by the reads.

Every read sees that it has moved, so where its updates lie cannot be seen; but a value is no older
than the counter's period. How long that is, is told by reads close together: how often it moves
between them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection

import numpy as np

from .updates import Row

_PAIRS = 400  # reads that tell how fast it is…
_ANEW = 16  # …looked at once in so many updates
_CAUGHT = 51  # close brackets that tell whether it is fast
_FEWEST = 12
_BLIND = 0.5  # share of brackets that no unchanged read precedes
# Of a counter about as fast as the reads neither these nor a lattice tell when it moved.
_BLIND_OF_LATTICE, _BLIND_OF_FAST, _FEWEST_BETWEEN = 0.35, 0.9, 40


class FastCounter:
    """Tells whether a counter is fast, and dates its updates if it is."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[float, bool]] = deque(maxlen=_PAIRS)
        self._blind: deque[bool] = deque(maxlen=_CAUGHT)
        self._dated: deque[tuple[float, float, float, bool]] = deque()  # low, high, joules, fresh
        self._oldest_s = math.inf  # how old a value can be when it is read
        self._count = 0
        self.common_error_s = 0.0

    @property
    def is_fast(self) -> bool:
        """True if it mostly had moved at the read before as well."""
        return self._blind_share > _BLIND

    @property
    def is_between(self) -> bool:
        """True if it is about as fast as it is read, so that no update can be dated."""
        between = _BLIND_OF_LATTICE < self._blind_share < _BLIND_OF_FAST
        return between and len(self._blind) >= _FEWEST_BETWEEN

    @property
    def _blind_share(self) -> float:
        return sum(self._blind) / len(self._blind) if len(self._blind) >= _FEWEST else 0.0

    @property
    def seen_every_s(self) -> float:
        """Mean seconds between two reads that saw it moved."""
        gaps = [gap for gap, moved in self._pairs if moved]
        return sum(gaps) / len(gaps)

    def saw(self, gap_s: float, *, moved: bool, close: bool = False, blind: bool = False) -> None:
        """Two reads.

        Args:
            gap_s: seconds between them.
            moved: whether the counter moved between them.
            close: whether they bracket its update closely.
            blind: whether it had moved at the read before as well.
        """
        self._pairs.append((gap_s, moved))
        if close:
            self._blind.append(blind)

    def date(self, low: float, read: float, high: float, joules: float, *, fresh: bool) -> None:
        """Date an update after ``low`` by the read between ``read`` and ``high`` that saw it."""
        if self._count % _ANEW == 0:
            self._oldest_s, self.common_error_s = period_of(self._pairs)
        self._count += 1
        self._dated.append((max(low, read - self._oldest_s), high, joules, fresh))

    def take(self, keep: int) -> list[Row]:
        """The oldest dated updates, all but the last ``keep``."""
        rows: list[Row] = []
        while len(self._dated) > keep:
            low, high, joules, fresh = self._dated[0]
            half = (high - low) / 2
            horizon = self._dated[-1][1]
            rows.append((low + half, joules, half / math.sqrt(3), half, horizon, fresh))
            self._dated.popleft()
        return rows


def period_of(pairs: Collection[tuple[float, bool]]) -> tuple[float, float]:
    """The period of a counter that updates evenly, by how often it moves between two reads.

    In a time g it moves with probability min(1, g / period): the period with which it would have
    moved as often as it did. If it moved between all reads, however close, all that is known is
    that its period is shorter than that: half of it is taken.

    Args:
        pairs: seconds between two reads, and whether it moved between them.

    Returns:
        The period in s, and the standard error of half of it: by so much all dates may be off.
    """
    gaps = np.array([gap for gap, _ in pairs])
    moved = sum(has_moved for _, has_moved in pairs)
    shortest = float(np.quantile(gaps, 0.02))
    if moved == len(pairs):
        return shortest / 2, shortest / 4 / math.sqrt(3)
    low, high = float(gaps.min()), float(gaps.sum()) / max(moved, 1)
    for _ in range(30):
        middle = (low + high) / 2
        if np.minimum(1.0, gaps / middle).sum() > moved:
            low = middle
        else:
            high = middle
    # Each unchanged pair tells one part in √n of it.
    return high, min(high, shortest) / 2 / math.sqrt(len(pairs) - moved)
