"""When the recorder checks its members, writes the live page, attributes, estimates and saves."""

from __future__ import annotations

TICK_S = 0.1  # between two looks at what is due, and whether the job has ended
OLD_TICK_S = 0.2  # a ring that is not a small one fills in a quarter of a second at the fastest
SMALL_TICK_S = 0.05
BACKLOG_TICK_S = 0.005
OLD_S = 60.0
AFTER_S = 0.003  # the sensors' grid: the processor is awake then, and they have read
PAGE_S = 0.8  # between two live pages that have a viewer
SCRAPED_PAGE_S = 0.25  # an old one would falsify rates over short windows
UNSEEN_PAGE_S = 2.0  # between two pages without a viewer; a new viewer is noticed later than that
SERVED_S = 10.0  # between two estimates that have a viewer
ATTRIBUTE_S = 60.0  # much of what an advance costs does not depend on how much has come
UNSEEN_S = 300.0  # between two without one: a viewer without write access is never noticed
FIRST_S = 70.0  # a run of a minute is estimated at its end, when it no longer trains
SEAL_S = 115.0


class Timer:
    """Something that is due again and again; times are monotonic seconds."""

    def __init__(self, first_s: float = 0.0):
        self._next_s = first_s

    def due(self, now_s: float, every_s: float, *, early: bool = False) -> bool:
        """Whether it is time, or it is wanted ``early``; then it is due again in ``every_s``."""
        if now_s < self._next_s and not early:
            return False
        self._next_s = now_s + every_s
        return True


class Schedule:
    """Adapts one recorder's pace to who looks at its run; times are monotonic seconds."""

    def __init__(self, now_s: float, *, scraped: bool = False, expected: bool = False):
        """Plan from ``now_s`` on.

        Args:
            now_s: monotonic seconds.
            scraped: the run's metrics are served to a scraper.
            expected: the run asked for a dashboard, which shows its estimates.
        """
        self._scraped = scraped
        self._expected = self._seen = expected or scraped
        self._old_s = now_s + OLD_S
        self._attributed_s = now_s
        self._next_s = now_s + (SERVED_S if self._seen else FIRST_S)
        self._hurry_s = now_s
        self._estimate = Timer(now_s + UNSEEN_S)
        self._save = Timer(self._next_s)

    def look(self, seen: bool) -> None:
        """Note whether the live page has a viewer; a viewer gets recent estimates."""
        self._seen = self._expected or seen
        if self._seen:
            self._next_s = min(self._next_s, self._attributed_s + SERVED_S)

    def wait_s(self, now_s: float, *, small: bool, backlogged: bool = False) -> float:
        """Until the next round. The end of a run that has taken long may wait a little longer.

        Args:
            small: one of the rings is smaller than it should be.
            backlogged: one of them fills fast.
        """
        if backlogged:
            return BACKLOG_TICK_S
        tick_s = TICK_S if now_s < self._old_s or self._seen else OLD_TICK_S
        if small:  # by a full /dev/shm: it fills in a tenth of a second
            tick_s = SMALL_TICK_S
        return tick_s - (now_s - AFTER_S) % tick_s

    @property
    def drain_s(self) -> float:
        """Between two drains of the rings, whose cost is mostly fixed: they feed the live page.

        No edge is lost by waiting: a ring outlives a killed process, and one that fills is drained
        at once.
        """
        return PAGE_S if self._seen else UNSEEN_PAGE_S

    @property
    def page_s(self) -> float:
        """Between two live pages."""
        return SCRAPED_PAGE_S if self._scraped else self.drain_s

    def attribution_due(self, now_s: float, *, crowded: bool) -> bool:
        """Whether to attribute what has come; ``crowded``: more waits than should."""
        if now_s < self._next_s and not (crowded and now_s >= self._hurry_s):
            return False
        self._attributed_s, self._hurry_s = now_s, now_s + SERVED_S
        self._next_s = now_s + (SERVED_S if self._seen else ATTRIBUTE_S)
        return True

    def estimate_due(self, now_s: float) -> bool:
        """Whether to solve what was just attributed, for the live page."""
        return self._estimate.due(now_s, UNSEEN_S, early=self._seen)

    def save_due(self, now_s: float) -> bool:
        """Whether to save it, should this recorder be killed."""
        return self._save.due(now_s, SEAL_S)
