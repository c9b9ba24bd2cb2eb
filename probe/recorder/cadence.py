"""When the recorder tells what goes on, attributes, solves what it has gathered, and seals it."""

from __future__ import annotations

PAGE_S = 0.8  # between two live pages that somebody looks at
UNSEEN_PAGE_S = 2.0  # a look is noticed later than this page is old
SERVED_S = 10.0  # between two estimates that somebody looks at
ATTRIBUTE_S = 60.0  # much of what an advance costs does not depend on how much has come
UNSEEN_S = 300.0  # between two that nobody is known to look at: some may not write, nor say so
FIRST_S = 70.0  # a run of a minute is estimated at its end, when it no longer trains
SEAL_S = 55.0


class Cadence:
    """Of one recorder; times are monotonic seconds."""

    def __init__(self, now_s: float, *, expected: bool):
        """``expected``: somebody said from the begin that estimates will be looked at."""
        self._expected = self._seen = expected
        self._attributed_s = now_s
        self._next_s = self._seal_s = now_s + (SERVED_S if expected else FIRST_S)
        self._hurry_s, self._estimate_s = now_s, now_s + UNSEEN_S

    def look(self, seen: bool) -> None:
        """Whether somebody looks now: what they see must not be old."""
        self._seen = self._expected or seen
        if self._seen:
            self._next_s = min(self._next_s, self._attributed_s + SERVED_S)

    @property
    def page_s(self) -> float:
        """Between two live pages, and drains of the rings for them, whose cost is mostly fixed.

        No edge waits here: what is in a ring outlives whoever is killed, and a ring that fills
        is drained at once.
        """
        return PAGE_S if self._seen else UNSEEN_PAGE_S

    def attributes(self, now_s: float, *, crowded: bool) -> bool:
        """Whether it is time; ``crowded``: more waits than should."""
        if now_s < self._next_s and not (crowded and now_s >= self._hurry_s):
            return False
        self._attributed_s, self._hurry_s = now_s, now_s + SERVED_S
        self._next_s = now_s + (SERVED_S if self._seen else ATTRIBUTE_S)
        return True

    def estimates(self, now_s: float) -> bool:
        """Whether to solve what was just attributed, for the live page."""
        if not self._seen and now_s < self._estimate_s:
            return False
        self._estimate_s = now_s + UNSEEN_S
        return True

    def seals(self, now_s: float) -> bool:
        """Whether to save it, should this recorder be killed."""
        if now_s < self._seal_s:
            return False
        self._seal_s = now_s + SEAL_S
        return True
