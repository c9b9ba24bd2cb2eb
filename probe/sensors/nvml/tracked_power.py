"""A power reading whose refreshes are dated: read as a counter is, where its joules count.

The reading is a mean over a window and changes at each refresh, some ten times a second. Beside
a counter that is trusted it is a picture, read twice a second. Where it is the device's energy it
is read around its refreshes (:mod:`.update_tracker`), so that they can be dated and none is
missed: only then can phases be told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ...clock import Clock
from ...model import Reading, Sample
from ...units import NS_PER_S
from .._gap_log import GapLog
from .._schedule import on_grid
from .devices import DeviceHandle
from .power_readings import Milliwatts
from .session import Failed
from .update_tracker import UpdateTracker

_ALIVE_NS = NS_PER_S  # an unchanged value becomes a sample this often
_BACK_OFF_NS = NS_PER_S


class TrackedPower:
    """A :class:`.polling.Meter` of one power reading."""

    def __init__(
        self,
        source: str,
        call: Callable[[], Milliwatts],
        handle: DeviceHandle,
        slow_ns: int,
        counts: Callable[[], bool],
        now_ns: int,
    ) -> None:
        """A reading that is not read yet.

        Args:
            slow_ns: how often it is read while its joules do not count.
            counts: whether they do.
        """
        self.next_ns = now_ns
        self._source, self._call, self._handle = source, call, handle
        self._slow_ns, self._counts = slow_ns, counts
        self._random = Random(source)
        self._tracker: UpdateTracker | None = None  # while its joules count
        self._gaps = GapLog(source, now_ns)
        self._last: float | None = None
        self._pending: Sample | None = None  # an unchanged read that is no sample yet
        self._sampled_ns = 0

    def read(self, clock: Clock, out: list[Reading]) -> None:
        """Append what was read, and set ``next_ns``. Never raises."""
        begin_ns = clock.now_ns()
        value = self._call()
        end_ns = clock.now_ns()
        if self._counts() and self._tracker is None:
            self._tracker = UpdateTracker(end_ns, self._random)
        elif not self._counts():
            self._tracker = None
        if isinstance(value, Failed):
            self._fail(value, end_ns, out)
            return
        if (gap := self._gaps.good(end_ns)) is not None:
            out.append(gap)
        changed, self._last = value != self._last, value
        sample = Sample(self._source, end_ns, value, end_ns - begin_ns)
        if self._tracker is None:
            self._pending = None
            self._take(sample, out)
            self.next_ns = on_grid(max(self.next_ns + self._slow_ns, end_ns + self._slow_ns // 2))
            return
        if changed:
            if self._pending is not None:  # it bounds the refresh
                self._take(self._pending, out)
            self._pending = None
            self._take(sample, out)
        elif end_ns - self._sampled_ns >= _ALIVE_NS:
            self._pending = None
            self._take(sample, out)
        else:
            self._pending = sample
        self._tracker.observe((begin_ns + end_ns) // 2, changed)
        self.next_ns = self._tracker.next_ns

    def _take(self, sample: Sample, out: list[Reading]) -> None:
        out.append(sample)
        self._sampled_ns = sample.time_ns

    def _fail(self, why: Failed, now_ns: int, out: list[Reading]) -> None:
        if self._pending is not None:
            self._take(self._pending, out)
        self._pending = self._last = None
        if (gap := self._gaps.bad(now_ns, why.reason)) is not None:
            out.append(gap)
        if self._tracker is not None:
            self._tracker.interrupt(now_ns, _BACK_OFF_NS)
        self.next_ns = now_ns + _BACK_OFF_NS
        if why.lost:
            self._handle.renew(why, now_ns)
