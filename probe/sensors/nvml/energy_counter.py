"""One GPU's energy counter: how it is called, and what each read means.

It is read in short bursts around its predicted updates (:mod:`.update_tracker`), and only the
reads that carry information become samples: the last one before and the first one after each
change. One read is one plain ctypes call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from random import Random
from typing import Any

from ...clock import Clock
from ...model import DISTRUSTED, TRUSTED_AGAIN, Gap, Reading, Sample
from ...units import NS_PER_MS, NS_PER_S
from .._gap_log import GapLog
from .counter_check import CounterHealth, Verdict
from .devices import DeviceHandle
from .power_readings import PowerCalls
from .session import LOST_CODES, Failed, Session, failed, plausible_counter
from .update_tracker import UpdateTracker

BACK_OFF_NS = NS_PER_S  # one try a second while a device is lost
ALIVE_NS = NS_PER_S  # an unchanged value becomes a sample this often
POWER_EVERY_NS = NS_PER_S // 2
MAX_MW = 20_000_000.0  # no device draws more; what says so is a wrong reading
GLITCHES = 5  # implausible reads within 10 s that mean: it is read too fast
_SLOW_NS = NS_PER_S


class EnergyCounter:
    """A :class:`.polling.Meter`; what it finds out about the counter goes to ``warnings``."""

    def __init__(
        self,
        session: Session,
        handle: DeviceHandle,
        source: str,
        seed: int,
        now_ns: int,
        warnings: list[str],
    ) -> None:
        self.source = source
        self._session, self._nvml, self._handle = session, session.nvml, handle
        self._function: Any = session.function("nvmlDeviceGetTotalEnergyConsumption")
        self._value = ctypes.c_ulonglong()
        self._reference = ctypes.byref(self._value)
        self._tracker = UpdateTracker(now_ns, Random(seed))
        self._gaps = GapLog(source, now_ns)
        self.next_ns = now_ns
        self._slow = False  # read once a second, because faster reads spoil the counter
        self._last: int | None = None  # last trusted value, mJ
        self._last_ns = now_ns
        self._suspect: int | None = None  # a value that does not follow from the last one
        # (end, span) of an unchanged read that is not a sample yet; most of them never are.
        self._pending: tuple[int, int] | None = None
        self._sampled_ns = 0
        self._failures = 0
        self._glitches: list[int] = []
        self._health = CounterHealth()
        self._power = PowerCalls(session, handle)
        self._power_ns = now_ns
        self._warnings = warnings
        self._warned: set[str] = set()

    def read(self, clock: Clock, out: list[Reading]) -> None:
        begin_ns = clock.now_ns()
        try:
            self._read(begin_ns, clock.now_ns, out)
        except Exception as error:  # no error may end the sampling
            self._fail(clock.now_ns(), failed(error), out)
        if self._power_ns <= begin_ns:
            self._check(clock, out)

    # -- one read -----------------------------------------------------------------

    def _read(self, begin_ns: int, now: Callable[[], int], out: list[Reading]) -> None:
        """Call NVML once and append what it means."""
        code = self._function(self._handle.value, self._reference)
        end_ns = now()
        if code:
            self._fail(end_ns, failed(self._nvml.NVMLError(code)), out)
            return
        value = self._value.value
        if value != self._last:
            self._changed(value, begin_ns, end_ns, out)
            return
        # Most reads: nothing new.
        if self._failures or self._suspect is not None or self._gaps.failing:
            self._recovered(end_ns, out)
        self._last_ns = end_ns
        self._follow(begin_ns, end_ns, changed=False)
        self._pending = (end_ns, end_ns - begin_ns)
        if end_ns - self._sampled_ns >= ALIVE_NS:
            self._sample_pending(out)

    def _changed(self, value: int, begin_ns: int, end_ns: int, out: list[Reading]) -> None:
        last = self._last
        if last is None and not plausible_counter(value):
            self._fail(end_ns, Failed(f"the counter reads {value} mJ"), out)
            return
        if last is not None and not self._follows(value, last, end_ns):
            if self._suspect is None or not self._follows(value, self._suspect, end_ns):
                self._doubt(value, last, end_ns, out)
                return
            # Twice in a row on a new track: the counter was reset (driver reload).
            out.append(Gap(self.source, self._last_ns, begin_ns, _backwards(last, value)))
            self._pending = None
            self._gaps.good(end_ns)  # what it would add is inside that gap
            self._health.restart()
            self._tracker.interrupt(end_ns, 0)
        self._recovered(end_ns, out)
        self._sample_pending(out)
        out.append(Sample(self.source, end_ns, float(value), end_ns - begin_ns))
        self._sampled_ns = end_ns
        if last is not None:
            self._health.counter(end_ns, float(value))
        self._follow(begin_ns, end_ns, changed=last is not None)
        self._last, self._last_ns = value, end_ns

    def _sample_pending(self, out: list[Reading]) -> None:
        """The last unchanged read, if it is not a sample yet: it bounds what comes next."""
        if self._pending is not None and self._last is not None:
            end_ns, span_ns = self._pending
            out.append(Sample(self.source, end_ns, float(self._last), span_ns))
            self._sampled_ns = end_ns
        self._pending = None

    def _follow(self, begin_ns: int, end_ns: int, *, changed: bool) -> None:
        if self._slow:
            self.next_ns = end_ns + _SLOW_NS
            return
        self._tracker.observe((begin_ns + end_ns) // 2, changed)
        self.next_ns = self._tracker.next_ns

    def _follows(self, value: int, before: int, now_ns: int) -> bool:
        """Can the counter have gone from ``before`` to ``value`` since the last good read?"""
        limit = (now_ns - self._last_ns + 2 * NS_PER_S) / NS_PER_S * MAX_MW
        return plausible_counter(value) and 0 <= value - before <= limit

    def _doubt(self, value: int, last: int, now_ns: int, out: list[Reading]) -> None:
        self._suspect = value if value and plausible_counter(value) else None
        self._glitches = [t for t in self._glitches if now_ns - t < 10 * NS_PER_S] + [now_ns]
        self._fail(now_ns, Failed(f"the counter reads {value} mJ after {last} mJ"), out)

    def _recovered(self, now_ns: int, out: list[Reading]) -> None:
        self._failures, self._suspect = 0, None
        gap = self._gaps.good(now_ns) if self._gaps.failing else None
        if gap is not None:
            out.append(gap)
            self._health.restart()

    def _fail(self, now_ns: int, why: Failed, out: list[Reading]) -> None:
        """No value: a gap, and a pause that grows to one try a second."""
        self._failures += 1
        gap = self._gaps.bad(now_ns, why.reason)
        if gap is not None:
            self._sample_pending(out)
            out.append(gap)
        lost = why.code in LOST_CODES or self._failures > 5
        pause = BACK_OFF_NS if lost or self._slow else 2 * (4 << self._failures) * NS_PER_MS
        self._tracker.interrupt(now_ns, pause)
        self.next_ns = now_ns + pause
        if lost:
            self._handle.renew(why, now_ns)

    # -- health --------------------------------------------------------------------

    def _check(self, clock: Clock, out: list[Reading]) -> None:
        """Compare the counter with sampled power; slow down when fast reads may spoil it."""
        verdict = self._compare(clock.now_ns())
        if len(self._glitches) >= GLITCHES:
            self._glitches.clear()
            if not self._slow:
                self._slow_down()
                self._warn("glitch", "fast reads return wrong values: read once a second")
        elif verdict is not None:
            self._judge(verdict, clock, out)

    def _compare(self, now_ns: int) -> Verdict | None:
        """Read power for the health check; the 1 s average where there is one."""
        averaged = isinstance(self._power.average, float)
        self._power_ns = now_ns + (NS_PER_S if averaged else POWER_EVERY_NS)
        if self._gaps.failing:
            return None
        milliwatts = self._power.steadiest()
        return None if isinstance(milliwatts, Failed) else self._health.power(now_ns, milliwatts)

    def _judge(self, verdict: Verdict, clock: Clock, out: list[Reading]) -> None:
        if not verdict.disagrees:
            if self._slow and "differs" in self._warned and "slow" not in self._warned:
                finding = "it agrees when read once a second: kept at that rate"
                self._warn("slow", finding)
                now_ns = clock.now_ns()
                out.append(Gap(self.source, now_ns, now_ns, f"{TRUSTED_AGAIN}: {finding}"))
                self._session.distrust(self._handle.index, again=True)
            return
        finding = (
            f"the counter's slope ({verdict.counter_w:.1f} W) differs from sampled power "
            f"({verdict.sampled_w:.1f} W) by {abs(verdict.ratio - 1):.0%}"
        )
        # At once: a run that ends before the second comparison must not count wrong joules.
        reason = f"{DISTRUSTED}: {finding}"
        out.append(Gap(self.source, verdict.begin_ns, clock.now_ns(), reason))
        self._session.distrust(self._handle.index)  # its power is read closely from now on
        if not self._slow:  # does it agree when it is left alone?
            self._slow_down()
            self._warn("differs", f"{finding}: its joules are not used; read once a second now")
            return
        self._warn("distrusted", f"{finding}, however it is read: its joules are not used")

    def _slow_down(self) -> None:
        self._slow = True
        self._health.restart()

    def _warn(self, topic: str, text: str) -> None:
        """Once per topic."""
        if topic not in self._warned:
            self._warned.add(topic)
            self._warnings.append(f"{self.source}: {text}")


def _backwards(last: int, value: int) -> str:
    way = "backwards" if value < last else "forwards by more than any power"
    return f"the counter went {way} ({last} to {value} mJ): driver reload or reset"
