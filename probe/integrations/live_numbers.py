"""The numbers of a run that goes on, as a framework's own log takes them.

``phasewatt/energy_j``: joules so far, measured. ``phasewatt/watts``: power now, measured.
``phasewatt/j_per_token`` or ``phasewatt/j_per_sample``: joules for each of them since the meter was
first read in this training. ``phasewatt/share/forward`` …: estimated parts of the energy; of GPUs
where there are any. What is not measured, or cannot be estimated, has no key.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from ..model import DeviceKind, Provenance
from ..store.live import Live, LiveDevice, LivePage

PREFIX = "phasewatt/"
COUNTS = ("token", "sample")  # the first that is known is what energy is divided by
_POINTS = 240  # two minutes of what is logged twice a second: a live page is younger


class CountOverTime:
    """How many tokens or samples were trained at any instant lately."""

    def __init__(self) -> None:
        self.total = 0.0
        self._points: deque[tuple[int, float]] = deque(maxlen=_POINTS)

    def add(self, number: float, now_ns: int) -> None:
        """So many more."""
        self.total += number
        self._points.append((now_ns, self.total))

    def at(self, time_ns: int) -> float | None:
        """The number at an instant; None before the first that is kept."""
        after = None
        for before in reversed(self._points):
            if before[0] <= time_ns:
                if after is None:  # after the last
                    return before[1]
                share = (time_ns - before[0]) / (after[0] - before[0])
                return before[1] + share * (after[1] - before[1])
            after = before
        return None


class LiveNumbers:
    """Live pages beside the counts of one training."""

    def __init__(self) -> None:
        self._counts = {name: CountOverTime() for name in COUNTS}
        self._since: dict[str, tuple[float, float]] = {}  # joules and count, when first read

    def count(self, name: str, number: float) -> None:
        """So many more of ``token`` or ``sample`` were trained, on all ranks together."""
        self._counts[name].add(number, time.monotonic_ns())

    def of(self, live: Live | None, nodes: int = 1) -> dict[str, float]:
        """The numbers by key; none where no meter measures.

        Args:
            live: what the recorders know.
            nodes: hosts of the job; joules per token need a page of each.
        """
        joules = None if live is None else live.energy_j()
        if live is None or joules is None:
            return {}
        numbers = {PREFIX + "energy_j": joules}
        watts = live.power_w()
        if watts is not None:
            numbers[PREFIX + "watts"] = watts
        if len(live.pages) == nodes:
            read_ns = max(device.time_ns for device in measured(live.devices))
            numbers |= self._each(joules, read_ns)
        for phase, share in shares(live.pages).items():
            numbers[f"{PREFIX}share/{phase}"] = share
        return numbers

    def _each(self, joules: float, read_ns: int) -> dict[str, float]:
        for name, counted in self._counts.items():
            number = counted.at(read_ns)
            if number is None:
                continue
            joules_before, number_before = self._since.setdefault(name, (joules, number))
            if number > number_before and joules > joules_before:
                each = (joules - joules_before) / (number - number_before)
                return {f"{PREFIX}j_per_{name}": each}
            return {}
        return {}


def measured(devices: Sequence[LiveDevice]) -> list[LiveDevice]:
    """Those with a meter."""
    return [device for device in devices if device.provenance == Provenance.MEASURED]


def shares(pages: Sequence[LivePage]) -> dict[str, float]:
    """Each phase's part of the energy, of GPUs where there are any, else of all that is measured.

    A phase that one of these devices cannot resolve has none.
    """
    metered = [(page, device) for page in pages for device in measured(page.devices)]
    gpus = [pair for pair in metered if pair[1].device_kind == DeviceKind.ACCELERATOR]
    joules: dict[str, float] = {}
    unresolved: set[str] = set()
    total_j = 0.0
    for page, device in gpus or metered:
        rows = [row for row in page.phases if row.device == device.device]
        if all(row.energy_j is None for row in rows):
            return {}
        total_j += device.energy_j
        for row in rows:
            if row.energy_j is None:
                unresolved.add(row.phase)
            else:
                joules[row.phase] = joules.get(row.phase, 0.0) + row.energy_j
    return {
        phase: energy_j / total_j
        for phase, energy_j in joules.items()
        if phase not in unresolved and total_j > 0
    }
