"""GPU energy counters (nvmlDeviceGetTotalEnergyConsumption, mJ since driver load).

Every counter is read in short bursts around its predicted updates (:mod:`_counter_lock`),
and only the reads that carry information are handed on: the last one before and the
first one after each change. The reader thread makes one plain ctypes call a read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, ClassVar

from ...errors import SensorUnavailable
from ...model import DISTRUSTED, Absence, Gap, Kind, Provenance, Reading, Sample, Source
from ...units import J_PER_MJ, NS_PER_MS, NS_PER_S
from .._gap_log import GapLog
from ..base import SensorContext
from .calibration import load
from .counter_check import CounterHealth, Verdict
from .power_calls import Milliwatts, PowerCalls
from .session import LOST_CODES, Device, Failed, Session, failed, open_devices, plausible_counter
from .update_tracker import UpdateLock

GROUP_NS = NS_PER_MS  # GPUs due within this are read together
BACK_OFF_NS = NS_PER_S  # one try a second while a device is lost
ALIVE_NS = NS_PER_S  # an unchanged value is handed on this often
POWER_EVERY_NS = NS_PER_S // 2
MAX_MW = 20_000_000.0  # no device draws more; what says so is a wrong reading
GLITCHES = 5  # implausible reads within 10 s that mean: it is read too fast
_SLOW_NS = NS_PER_S


class _Counter:
    """One device's counter: how to call it, when, and what came of it."""

    def __init__(self, session: Session, device: Device, source: str, now_ns: int) -> None:
        self.session, self.device, self.source = session, device, source
        self.function: Any = session.function("nvmlDeviceGetTotalEnergyConsumption")
        self.handle = device.handle
        self.value = ctypes.c_ulonglong()
        self.reference = ctypes.byref(self.value)
        self.lock = UpdateLock(now_ns, Random(device.index))
        self.gaps = GapLog(source, now_ns)
        self.next_ns = now_ns
        self.slow = False  # read once a second, because faster reads spoil the counter
        self.last: int | None = None  # last trusted value, mJ
        self.last_ns = now_ns
        self.suspect: int | None = None  # a value that does not follow from the last one
        self.pending: tuple[int, int] | None = None  # (end, span) of an unchanged read, not
        # yet handed on; no Sample until it is: most of them never are
        self.handed_ns = 0
        self.failures = 0
        self.glitches: list[int] = []
        self.health = CounterHealth()
        self.power = PowerCalls(session, device)
        self.power_ns = now_ns

    # -- one read -----------------------------------------------------------------

    def read(self, begin_ns: int, now: Any, out: list[Reading]) -> None:
        """Call NVML once and append what it means."""
        try:
            code = self.function(self.handle, self.reference)
        except Exception as error:
            self.fail(now(), failed(error), out)
            return
        end_ns: int = now()
        if code:
            self.fail(end_ns, failed(self.session.nvml.NVMLError(code)), out)
            return
        value = self.value.value
        last = self.last
        if value == last:  # most reads: nothing new
            if self.failures or self.suspect is not None or self.gaps.failing:
                self._recovered(end_ns, out)
            self.last_ns = end_ns
            self._follow(begin_ns, end_ns, changed=False)
            self.pending = (end_ns, end_ns - begin_ns)
            if end_ns - self.handed_ns >= ALIVE_NS:
                self._hand_on(out)
            return
        self._changed(value, begin_ns, end_ns, out)

    def _changed(self, value: int, begin_ns: int, end_ns: int, out: list[Reading]) -> None:
        last = self.last
        if last is None and not plausible_counter(value):
            self.fail(end_ns, Failed(f"the counter reads {value} mJ"), out)
            return
        if last is not None and not self._follows(value, last, end_ns):
            if self.suspect is None or not self._follows(value, self.suspect, end_ns):
                self._doubt(value, last, end_ns, out)
                return
            # Twice in a row on a new track: the counter was reset (driver reload).
            out.append(Gap(self.source, self.last_ns, begin_ns, _backwards(last, value)))
            self.pending = None
            self.gaps.good(end_ns)  # what it would add is inside that gap
            self.health.restart()
            self.lock.interrupt(end_ns, 0)
        self._recovered(end_ns, out)
        self._hand_on(out)
        out.append(Sample(self.source, end_ns, float(value), end_ns - begin_ns))
        self.handed_ns = end_ns
        if last is not None:
            self.health.counter(end_ns, float(value))
        self._follow(begin_ns, end_ns, changed=last is not None)
        self.last, self.last_ns = value, end_ns

    def _hand_on(self, out: list[Reading]) -> None:
        """The last unchanged read, if it was kept back: it bounds what comes next."""
        if self.pending is not None and self.last is not None:
            end_ns, span_ns = self.pending
            out.append(Sample(self.source, end_ns, float(self.last), span_ns))
            self.handed_ns = end_ns
        self.pending = None

    def _follow(self, begin_ns: int, end_ns: int, *, changed: bool) -> None:
        if self.slow:
            self.next_ns = end_ns + _SLOW_NS
            return
        self.lock.observe((begin_ns + end_ns) // 2, changed)
        self.next_ns = self.lock.next_ns

    def _follows(self, value: int, before: int, now_ns: int) -> bool:
        """Can the counter have gone from ``before`` to ``value`` since the last good read?"""
        limit = (now_ns - self.last_ns + 2 * NS_PER_S) / NS_PER_S * MAX_MW
        return plausible_counter(value) and 0 <= value - before <= limit

    def _doubt(self, value: int, last: int, now_ns: int, out: list[Reading]) -> None:
        self.suspect = value if value and plausible_counter(value) else None
        self.glitches = [t for t in self.glitches if now_ns - t < 10 * NS_PER_S] + [now_ns]
        self.fail(now_ns, Failed(f"the counter reads {value} mJ after {last} mJ"), out)

    def _recovered(self, now_ns: int, out: list[Reading]) -> None:
        self.failures, self.suspect = 0, None
        gap = self.gaps.good(now_ns) if self.gaps.failing else None
        if gap is not None:
            out.append(gap)
            self.health.restart()

    def fail(self, now_ns: int, why: Failed, out: list[Reading]) -> None:
        """No value: a gap, and a pause that grows to one try a second."""
        self.failures += 1
        gap = self.gaps.bad(now_ns, why.reason)
        if gap is not None:
            self._hand_on(out)
            out.append(gap)
        lost = why.code in LOST_CODES or self.failures > 5
        pause = BACK_OFF_NS if lost or self.slow else 2 * (4 << self.failures) * NS_PER_MS
        self.lock.interrupt(now_ns, pause)
        self.next_ns = now_ns + pause
        if lost:
            self._refresh(why)

    def _refresh(self, why: Failed) -> None:
        """A device that comes back may have another handle."""
        if why.code == 1:
            self.session.revive()
        handle = self.session.fetch_handle(self.device.index)
        if not isinstance(handle, Failed):
            self.handle = self.power.handle = handle

    # -- health --------------------------------------------------------------------

    def sample_power(self, now_ns: int) -> Verdict | None:
        """Read power for the health check; the 1 s average where there is one."""
        averaged = isinstance(self.power.average, float)
        self.power_ns = now_ns + (NS_PER_S if averaged else POWER_EVERY_NS)
        if self.gaps.failing:
            return None
        reading: Milliwatts
        if averaged or isinstance(self.power.instant, float):
            instant, average = self.power.fields()
            reading = instant if isinstance(average, Failed) else average
        elif isinstance(self.power.usage_probe, float):
            reading = self.power.usage()
        else:
            return None
        return None if isinstance(reading, Failed) else self.health.power(now_ns, reading)


class NvmlEnergySensor:
    """Energy of the selected NVIDIA GPUs; the measured total rests on it."""

    name: ClassVar[str] = "nvml_energy"

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self.rule = ""  # which rule selected the devices
        self._context = context
        self._session: Session | None = None
        self._counters: list[_Counter] = []
        self._next_ns = 0  # at once
        self._complained: dict[str, str] = {}

    def open(self) -> Sequence[Source]:
        context = self._context
        self._session, devices, self.rule = open_devices(
            context.requests, self.absent, self.warnings
        )
        sources = [s for s in map(self._open_device, devices) if s is not None]
        if not sources:
            self.close()
            first = self.absent[0]
            raise SensorUnavailable(f"{first.what}: {first.reason}", first.remedy)
        return sources

    def _open_device(self, device: Device) -> Source | None:
        session = self._session
        assert session is not None
        value = session.probe_counter(device)
        if isinstance(value, Failed):
            self.absent.append(
                Absence(
                    sensor=self.name,
                    what=f"GPU {device.index} energy counter",
                    reason=value.reason,
                    remedy="power is sampled instead" if not value.lost else None,
                )
            )
            return None
        known = load(device.uuid, session.driver())
        source = Source(
            id=device.source_id("energy"),
            device=device.device,
            quantity="energy",
            unit="J",
            kind=Kind.COUNTER,
            provenance=Provenance.MEASURED,
            scale=J_PER_MJ,
            uuid=device.uuid,
            method="counter",
            attributable=not device.shared,
            lag_s=known.lag_s if known else None,
            offset_s=known.offset_s if known else None,
            in_total=not device.shared,
            note=device.shared or device.scope_note,
            model=device.name,
        )
        self._counters.append(_Counter(session, device, source.id, self._context.clock.now_ns()))
        return source

    def read(self) -> Iterable[Reading]:
        out: list[Reading] = []
        now = self._context.clock.now_ns
        begin_ns = now()
        due = begin_ns + GROUP_NS
        soonest = begin_ns + NS_PER_S
        for counter in self._counters:
            if counter.next_ns <= due:
                begin_ns = now()
                try:
                    counter.read(begin_ns, now, out)
                except Exception as error:  # nothing of ours may end the sampling
                    counter.fail(now(), failed(error), out)
                if counter.power_ns <= begin_ns:
                    verdict = counter.sample_power(now())
                    if verdict is not None or len(counter.glitches) >= GLITCHES:
                        self._judge(counter, verdict, out)
            if counter.next_ns < soonest:
                soonest = counter.next_ns
        self._next_ns = soonest
        return out

    def _judge(self, counter: _Counter, verdict: Verdict | None, out: list[Reading]) -> None:
        """Slow down when fast reads may be the cause; say once what was found."""
        source = counter.source
        if len(counter.glitches) >= GLITCHES:
            counter.glitches.clear()
            if not counter.slow:
                counter.slow = True
                counter.health.restart()
                self._say(source, "glitch", "fast reads return wrong values: read once a second")
            return
        if verdict is None:
            return
        if not verdict.disagrees:
            if counter.slow and "differs" in self._complained.get(source, ""):
                self._say(source, "slow", "it agrees when read once a second: kept at that rate")
            return
        found = (
            f"the counter's slope ({verdict.counter_w:.1f} W) differs from sampled power "
            f"({verdict.sampled_w:.1f} W) by {abs(verdict.ratio - 1):.0%}"
        )
        if not counter.slow:  # does it agree when it is left alone?
            counter.slow = True
            counter.health.restart()
            self._say(source, "differs", f"{found}: it is read once a second from now on")
            return
        now_ns = self._context.clock.now_ns()
        out.append(Gap(source, verdict.begin_ns, now_ns, f"{DISTRUSTED}: {found}"))
        self._say(source, "distrusted", f"{found}, however it is read: its joules are not used")

    def _say(self, source: str, topic: str, text: str) -> None:
        said = self._complained.get(source, "")
        if topic not in said:
            self._complained[source] = f"{said} {topic}"
            self.warnings.append(f"{source}: {text}")

    @property
    def notes(self) -> dict[str, str]:
        """What was found out about a source after it was opened, by source id."""
        return dict(line.split(": ", 1) for line in self.warnings if line.startswith("nvml:"))

    def next_read_ns(self) -> int:
        return self._next_ns

    def close(self) -> None:
        session, self._session = self._session, None
        self._counters = []
        if session is not None:
            session.close()


def _backwards(last: int, value: int) -> str:
    way = "backwards" if value < last else "forwards by more than any power"
    return f"the counter went {way} ({last} to {value} mJ): driver reload or reset"
