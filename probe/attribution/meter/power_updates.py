"""Updates of a power reading that is refreshed at regular instants: what it shows is a mean.

A reading is the mean over some window that ends, perhaps late, when it is refreshed. It becomes
what a counter would have added since the refresh before: the reading times the usual period,
whatever the window is; which window it is belongs to the response (a window shorter than the
period looks at a part of the time, a longer one at some of it several times). Reads are dated as
a counter's are. A refresh that was not read says nothing: unlike a counter, no later value makes
up for it.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from .update_times import CounterUpdateFinder
from .updates import Updates

_ONE_PERIOD = 1.5  # periods; a longer step has lost a refresh


class PowerUpdateFinder:
    """Makes dated updates of reads of a power reading. Feed them in order."""

    exact = False
    common_error_s = 0.0

    def __init__(self) -> None:
        self._finder = CounterUpdateFinder()  # of how often the reading has changed
        self._watts: list[float] = []  # by that number, from _first on
        self._first = 0
        self._value: float | None = None
        self._number = 0
        self._anew = True  # the next read follows an interruption
        self._before: tuple[float, int] | None = None  # the last update: time, number
        self._steps_s, self._steps = 0.0, 0  # of the steps of one period so far
        self._joules = 0.0

    @property
    def undated(self) -> bool:
        """True if no refresh can be dated: it moves about as often as it is read."""
        return self._finder.undated

    @property
    def period_s(self) -> float:
        """Seconds between refreshes; 1 until that is known."""
        return self._finder.period_s

    def feed(self, time_s: Floats, span_s: Floats, watts: Floats) -> Updates:
        """Take reads in order, arrays (n,): when each returned, how long it took, its value in W.

        Returns the updates that are decided by now.
        """
        numbers = np.empty(len(watts))
        for place, value in enumerate(watts.tolist()):
            # What changed over an interruption is no change to the finder.
            if self._value is None or (value != self._value and not self._anew):
                self._number += 1
                self._watts.append(value)
            self._value, self._anew = value, False
            numbers[place] = self._number
        return self._powers(self._finder.feed(time_s, span_s, numbers))

    def interrupt(self) -> None:
        """Count nothing for what lies between the last read and the next."""
        self._finder.interrupt()
        self._anew = True

    def finish(self) -> Updates:
        """Return the updates that were held back."""
        return self._powers(self._finder.finish())

    def _powers(self, updates: Updates) -> Updates:
        """The same updates with the joules that their readings stand for."""
        if not len(updates):
            return updates
        # The finder's first change is its zero, and ours is number 2: number 1 is the first read.
        number = np.round(updates.joules).astype(np.int64) + 2
        watts = np.array(self._watts)[number - 1 - self._first]
        time_s, last = (updates.time_s[0], number[0] - 2) if self._before is None else self._before
        steps = np.diff(updates.time_s, prepend=time_s)
        fresh = updates.fresh | (np.diff(number, prepend=last) != 1)
        fresh |= steps > _ONE_PERIOD * self.period_s
        fresh |= self._finder.common_error_s > 0  # it moves at every read: no refresh is dated
        # The usual period is the mean of all steps so far: what comes out does not depend on how
        # the reads were cut.
        usual_s = self._steps_s + np.cumsum(np.where(fresh, 0.0, steps))
        count = self._steps + np.cumsum(~fresh)
        self._steps_s, self._steps = float(usual_s[-1]), int(count[-1])
        added = np.where(fresh, 0.0, watts * usual_s / np.maximum(count, 1))
        joules = self._joules + np.cumsum(added)
        self._joules = float(joules[-1])
        self._before = float(updates.time_s[-1]), int(number[-1])
        drop = int(number[-1]) - 1 - self._first
        del self._watts[:drop]
        self._first += drop
        return Updates(
            updates.time_s, joules, updates.sigma_s, updates.slack_s, updates.horizon_s, fresh
        )
