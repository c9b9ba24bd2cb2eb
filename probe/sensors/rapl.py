"""CPU and memory energy: the RAPL counters of Linux powercap, µJ, updated about once a ms.

Packages and DRAM count into the measured total; a platform counter (psys) does only
where no package can be read, because it holds the same joules again. Core and uncore
lie inside their package. The counters of the total are read every 20 ms, the others
once a second; both more slowly where a read is expensive, so that reading stays below
0.4 % of one core.
"""

from __future__ import annotations

import contextlib
import os

from ..model import Gap, Reading, Sample
from ..units import J_PER_UJ, NS_PER_MS, NS_PER_S
from ._gaps import GapLog
from ._powercap import Zone

PERIOD_NS = 20 * NS_PER_MS
SLOWEST_NS = NS_PER_S
SHARE = 250  # a pass that takes t is made every 250 t at most
_SETTLE_NS = NS_PER_MS  # nothing new can be read sooner
_MAX_W = {"psys": 20_000.0}  # more than any device draws: beyond it a step is no energy
_USUAL_MAX_W = 2_000.0


class _Counter:
    """One open ``energy_uj``, followed over wraparounds, resets and absences.

    The value handed on is the raw one until the counter starts anew for another reason
    than a wraparound. From there on it is continued (a Gap marks the place), so that no
    reader takes a reset for a wraparound worth 262 kJ.
    """

    def __init__(self, zone: Zone, now_ns: int) -> None:
        self.zone = zone
        self.source = f"rapl:{zone.key}"
        self.gaps = GapLog(self.source, now_ns)
        self.fd = os.open(zone.file, os.O_RDONLY | os.O_CLOEXEC)
        self._limit_w = _MAX_W.get(zone.kind, _USUAL_MAX_W)
        self._offset = 0  # handed on minus raw, after a restart
        self._last: int | None = None  # last raw value
        self._last_ns = now_ns
        self._retry_ns = 0

    def read(self, now_ns: int, out: list[Reading]) -> int:
        """Read once, append what it means, return the time after it."""
        return self._failed(now_ns, "", out) if self.fd < 0 else now_ns

    def value(self, raw: int, begin_ns: int, end_ns: int, out: list[Reading]) -> None:
        """A read gave ``raw``."""
        last, wrap = self._last, self.zone.wrap_uj
        if last is not None:
            step = raw - last
            if step < 0 and wrap:
                step += wrap
            elapsed_ns = end_ns - self._last_ns
            limit = self._limit_w * (elapsed_ns / NS_PER_S + 0.05) / J_PER_UJ
            # So long a pause that whole turns may have been missed.
            blind = wrap is not None and limit > wrap
            if step < 0 or step > limit or blind:
                self._offset += last - raw
                why = "the counter may have wrapped more than once" if blind else _restarted(last, raw)
                out.append(Gap(self.source, self._last_ns, end_ns, why))
                self.gaps.good(end_ns)  # whatever was missed lies inside that gap
        if self.gaps.failing:
            gap = self.gaps.good(end_ns)
            if gap is not None:
                out.append(gap)
        self._last, self._last_ns = raw, end_ns
        value = raw + self._offset
        if self._offset and wrap:
            value %= wrap
        out.append(Sample(self.source, end_ns, float(value), end_ns - begin_ns))

    def close(self) -> None:
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)
            self.fd = -1
