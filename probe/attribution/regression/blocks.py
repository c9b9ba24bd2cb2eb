"""Normal equations in a constant number of time blocks.

Rows z = [y, e₁ … e_q, x₁ … x_p] are summed as zᵀz; the number of e's never changes. When 64
blocks are full, neighbours merge and a block is twice as long from then on: memory O(64 p²) for
ever, and 32 to 64 blocks for the jackknife at any time. Beside them a *ledger* keeps plain sums
for the same stretches of time, so that a part of the run can be solved by itself.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats, Ints
from .iir_filter import fading

MOST = 64
_FIRST_ROWS = 4

# Lines of the ledger; each has a number per column.
MIXED_S = 0  # seconds in intervals that were regressed
DIRECT_S = 1  # seconds in intervals inside one phase, at that phase's first column
DIRECT_J = 2
MIXED_J = 3  # at column 0
LINES = 4


class Blocks:
    """Sums of zᵀz over blocks of rows z (n,), n = 1 + extras + width.

    Block b holds ``sums[b]`` (n, n) of ``rows[b]`` rows up to ``until_s[b]``, and ``ledger[b]``
    (LINES, width).
    """

    def __init__(self, width: int, extras: int = 0, *, most: int = MOST):
        self._extras = extras
        self.ledger = np.zeros((most, LINES, width))
        size = 1 + extras + width
        self.sums = np.zeros((most, size, size))
        self.rows = np.zeros(most, np.int64)
        self.until_s = np.zeros(most)
        self._used = 0  # full blocks; the one after them is being filled
        self._length = _FIRST_ROWS

    def __len__(self) -> int:
        """Number of blocks that hold rows."""
        return self._used + (1 if self._used < len(self.rows) and self.rows[self._used] else 0)

    def widen(self, width: int) -> None:
        """Make room for new columns, which are zero so far."""
        more = width + 1 + self._extras - self.sums.shape[1]
        if more > 0:
            self.sums = np.pad(self.sums, ((0, 0), (0, more), (0, more)))
            self.ledger = np.pad(self.ledger, ((0, 0), (0, 0), (0, more)))

    def add(self, rows: Floats, time_s: Floats, ledger: Floats | None = None) -> None:
        """Add n rows [y, e, x], (n, 1 + extras + width).

        Args:
            time_s: when each row ended, (n,).
            ledger: what the rows add to the ledger, (n, LINES, width).
        """
        begin = 0
        while begin < len(rows):
            b = self._used
            take = min(self._length - int(self.rows[b]), len(rows) - begin)
            part = rows[begin : begin + take]
            self.sums[b] += part.T @ part
            if ledger is not None:
                self.ledger[b] += ledger[begin : begin + take].sum(0)
            self.rows[b] += take
            self.until_s[b] = time_s[begin + take - 1]
            begin += take
            if self.rows[b] == self._length:
                self._used += 1
                if self._used == len(self.rows):
                    self._merge()

    def note(self, ledger: Floats) -> None:
        """Add to the ledger what came after the last row, (LINES, width)."""
        filling = self._used < len(self.rows) and self.rows[self._used] > 0
        self.ledger[self._used if filling else max(0, self._used - 1)] += ledger

    def between(self, begin_s: float, end_s: float) -> Blocks:
        """The blocks that lie wholly between two instants."""
        n = len(self)
        begins = np.concatenate([[-np.inf], self.until_s[: max(0, n - 1)]])[:n]
        inside = np.zeros(len(self.rows), bool)
        inside[:n] = (begins >= begin_s) & (self.until_s[:n] <= end_s)
        part = Blocks(self.ledger.shape[2], self._extras, most=len(self.rows))
        k = int(inside.sum())
        part.sums[:k], part.rows[:k] = self.sums[inside], self.rows[inside]
        part.until_s[:k], part.ledger[:k] = self.until_s[inside], self.ledger[inside]
        part._used, part._length = k, self._length
        return part

    def scaled(self, gain: float) -> Blocks:
        """These blocks with all energies times ``gain``: y, the extras, and the ledger's joules."""
        sums, ledger = self.sums.copy(), self.ledger.copy()
        in_joules = slice(0, 1 + self._extras)
        sums[:, in_joules] *= gain
        sums[:, :, in_joules] *= gain
        ledger[:, [MIXED_J, DIRECT_J]] *= gain
        n = len(self)
        return Blocks.restore(
            sums[:n],
            self.rows[:n],
            self.until_s[:n],
            ledger[: max(1, n)],
            extras=self._extras,
            most=len(self.rows),
        )

    def _merge(self) -> None:
        half = len(self.rows) // 2
        self.ledger[:half] = self.ledger[::2] + self.ledger[1::2]
        self.ledger[half:] = 0
        self.sums[:half] = self.sums[::2] + self.sums[1::2]
        self.rows[:half] = self.rows[::2] + self.rows[1::2]
        self.until_s[:half] = self.until_s[1::2]
        self.sums[half:], self.rows[half:], self.until_s[half:] = 0, 0, 0
        self._used, self._length = half, 2 * self._length

    def full(self) -> tuple[Floats, Ints, Floats]:
        """The n blocks that hold rows.

        Returns:
            (sums (n, 1 + extras + width, …), rows (n,), ends in s (n,)).
        """
        n = len(self)
        return self.sums[:n], self.rows[:n], self.until_s[:n]

    @classmethod
    def restore(
        cls,
        sums: Floats,
        rows: Ints,
        until_s: Floats,
        ledger: Floats | None = None,
        *,
        extras: int = 0,
        most: int = MOST,
    ) -> Blocks:
        """Blocks that go on from what :meth:`full` gave, and from the ledger (n, LINES, width)."""
        blocks = cls(sums.shape[1] - 1 - extras, extras, most=most)
        n = len(rows)
        blocks.sums[:n], blocks.rows[:n], blocks.until_s[:n] = sums, rows, until_s
        if ledger is not None:
            blocks.ledger[: len(ledger)] = ledger
        while blocks._length < max(rows, default=0):
            blocks._length *= 2
        blocks._used = n if n == 0 or rows[-1] >= blocks._length else n - 1
        if blocks._used == most:
            blocks._merge()
        return blocks


class Innovations:
    """What slow drift does not explain: noise is white + AR(1), as a state per column.

    f = z − s, s ← φ (s + K f), the innovations form of a Kalman filter; K = 0 leaves z.
    All gains K, (gains,), are filtered at once.
    """

    PHI = 0.98

    def __init__(self, gains: Floats, width: int):
        self.gains = gains
        self._state = np.zeros((len(gains), width + 1))
        self._started = False

    def widen(self, width: int) -> None:
        """Make room in the state for new columns."""
        more = width + 1 - self._state.shape[1]
        if more > 0:
            self._state = np.pad(self._state, ((0, 0), (0, more)))

    def filter(self, rows: Floats) -> Floats:
        """Innovations (gains, n, w) of rows (n, w). The very first row only sets the state."""
        out = np.repeat(rows[None], len(self.gains), axis=0)
        for place, gain in enumerate(self.gains.tolist()):
            if gain > 0 and len(rows):
                states = fading(
                    np.full(len(rows), np.log(self.PHI * (1 - gain))),
                    self.PHI * gain * rows,
                    self._state[place],
                )
                out[place] -= np.concatenate([self._state[place][None], states[:-1]])
                self._state[place] = states[-1]
        if not self._started and len(rows):
            self._started = True
            return out[:, 1:]
        return out
