"""Joules per phase while the run goes on: the best estimate now, and a counter beside it.

The estimate is revised as data come, up or down. A counter must not be: what it has told
stays told. So per device every joule that the meter adds is handed out once: to the phases
whose estimate is ahead of what they were given, in proportion, the rest to ``unattributed``.
The counters of a device add up to its meter's at any time, and none ever falls.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..attribution.columns import UNATTRIBUTED
from ..attribution.estimate import estimate
from ..attribution.statistics import Statistics
from ..model import Phase, Status
from ..ring.layout import Code
from ..spans import SpanTable
from ..store.live import LivePhase, LiveTime
from ..units import NS_PER_S


@dataclass(slots=True)
class _Shares:
    """What the phases of one device were given."""

    given: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))  # J by code
    total_j: float = 0.0
    stated: dict[int, tuple[float, float, float, Status]] = field(default_factory=dict)

    def hand_out(self, total_j: float) -> None:
        """All that the meter added since the last time."""
        added = max(0.0, total_j - self.total_j)
        self.total_j += added
        behind = {code: max(0.0, best[0] - self.given[code])
                  for code, best in self.stated.items() if code >= 0}
        wanted = sum(behind.values())
        share = min(1.0, added / wanted) if wanted > 0 else 0.0
        for code, joules in behind.items():
            self.given[code] += share * joules
        self.given[UNATTRIBUTED] += added - share * wanted


class LivePhases:
    """Follows spans and statistics; :meth:`rows` says what they come to."""

    def __init__(self) -> None:
        self._seconds: dict[int, defaultdict[int, float]] = {}  # rank -> code -> s
        self._counts: dict[int, Counter[int]] = {}
        self._shares: dict[str, _Shares] = {}  # by device
        self._rank: dict[str, int] = {}

    def spans(self, rank: int, table: SpanTable) -> None:
        """Spans of a rank that are decided now."""
        spent = np.bincount(table.code, (table.end_ns - table.begin_ns) / NS_PER_S)
        seconds = self._seconds.setdefault(rank, defaultdict(float))
        for code in np.flatnonzero(spent).tolist():
            seconds[code] += float(spent[code])
        entered = np.bincount(table.code[table.entered])
        counts = self._counts.setdefault(rank, Counter())
        for code in np.flatnonzero(entered).tolist():
            counts[code] += int(entered[code])

    def estimates(
        self, device: str, rank: int, statistics: Statistics, total_j: float, run_s: float
    ) -> None:
        """What the estimator knows now of a device that belongs to one rank.

        Args:
            total_j: of its meter so far.
            run_s: how long the run has gone on.
        """
        self._rank[device] = rank
        seconds = {code: spent for code, spent in self._seconds.get(rank, {}).items()
                   if code != Code.OUTSIDE}
        seconds[UNATTRIBUTED] = max(0.0, run_s - sum(seconds.values()))
        found = estimate(statistics, total_j, seconds)
        if found is None:
            return
        shares = self._shares.setdefault(device, _Shares())
        shares.stated = {}
        for code in found.codes:
            known = found.of(code)
            if known.status is not Status.NOT_IDENTIFIABLE:
                shares.stated[code] = known.energy_j, known.low_j, known.high_j, known.status

    def phases(
        self, totals_j: Mapping[str, float], names: Mapping[int, Mapping[int, str]]
    ) -> Iterable[LivePhase]:
        """Every phase of every device.

        Args:
            totals_j: the meter of each device so far.
            names: of a rank's phases by code.
        """
        for device, total_j in totals_j.items():
            shares = self._shares.setdefault(device, _Shares())
            shares.hand_out(total_j)
            rank = self._rank.get(device)
            for code, given in sorted(shares.given.items()):
                name = _name(code, names.get(rank, {}) if rank is not None else {})
                best = shares.stated.get(code)
                if best is None:
                    yield LivePhase(name, device, given)
                else:
                    yield LivePhase(name, device, given, *best[:3], str(best[3]))

    def times(self, names: Mapping[int, Mapping[int, str]]) -> Iterable[LiveTime]:
        """Every phase of every rank."""
        for rank, seconds in sorted(self._seconds.items()):
            for code, spent in sorted(seconds.items()):
                if code != Code.OUTSIDE:
                    yield LiveTime(_name(code, names.get(rank, {})), rank, spent,
                                   self._counts[rank][code])


def _name(code: int, names: Mapping[int, str]) -> str:
    if code == UNATTRIBUTED:
        return str(Phase.UNATTRIBUTED)
    return names.get(code, str(Phase.OTHER))
