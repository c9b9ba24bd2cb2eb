"""Joules per phase while the run goes on: the best estimate now, and a counter beside it.

The estimate is revised as data come, up or down. A counter must not be: what it has counted stays
counted. So per device every joule that the meter adds is handed out once: to the phases that are
behind their estimate, in proportion, the rest to ``unattributed``. Between two estimates a phase
is taken to go on at its power. What was used before the estimator could tell a phase apart is
``unattributed`` for good, or the phase's rate would be wrong for as long as it caught up. The
counters of a device add up to its meter's at any time, and none ever falls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...attribution.columns import UNATTRIBUTED
from ...attribution.estimate import PhaseEstimate, estimate
from ...attribution.regression.statistics import Statistics
from ...model import Phase, Status
from ...store.live import LivePhase, LiveTime
from ...timeline.phase_totals import PhaseCounter
from ...timeline.span_table import SpanTable


@dataclass(frozen=True, slots=True)
class _StatedPhase:
    """A phase's estimate, and how long the phase had run by then."""

    estimate: PhaseEstimate
    seconds: float

    def by(self, seconds: float) -> float:
        """Joules once it has run so long, if it goes on as before."""
        energy_j = self.estimate.energy_j
        watts = energy_j / self.seconds if self.seconds > 0 else 0.0
        return energy_j + watts * max(0.0, seconds - self.seconds)


@dataclass(slots=True)
class _Shares:
    """What the phases of one device were given."""

    total_j: float = 0.0
    given: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    stated: dict[int, _StatedPhase] = field(default_factory=dict)
    missed: dict[int, float] = field(default_factory=dict)  # used before it was first stated

    def state(self, stated: dict[int, _StatedPhase], seconds: Mapping[int, float]) -> None:
        """New estimates."""
        self.stated = stated
        for code, phase in stated.items():
            if code not in self.missed:
                self.missed[code] = phase.by(seconds.get(code, 0.0))

    def hand_out(self, total_j: float, seconds: Mapping[int, float]) -> None:
        """All that the meter added since the last time."""
        added = max(0.0, total_j - self.total_j)
        self.total_j += added
        behind = {
            code: max(0.0, phase.by(seconds.get(code, 0.0)) - self.missed[code] - self.given[code])
            for code, phase in self.stated.items()
            if code >= 0
        }
        wanted = sum(behind.values())
        share = min(1.0, added / wanted) if wanted > 0 else 0.0
        for code, joules in behind.items():
            self.given[code] += share * joules
        self.given[UNATTRIBUTED] += added - share * wanted


class LivePhases:
    """Follows spans and statistics; :meth:`phases` and :meth:`times` say what they come to."""

    def __init__(self) -> None:
        self._tallies: dict[int, PhaseCounter] = {}
        self._shares: dict[str, _Shares] = {}  # by device
        self._rank: dict[str, int] = {}

    def spans(self, rank: int, table: SpanTable) -> None:
        """Spans of a rank that follow those before."""
        self._tallies.setdefault(rank, PhaseCounter()).take(table)

    def seconds(self, rank: int | None) -> dict[int, float]:
        """Seconds of each phase of a rank so far, on the host's clock."""
        return self._tallies[rank].seconds() if rank is not None and rank in self._tallies else {}

    def counts(self, rank: int) -> Mapping[int, int]:
        """Instances of each phase of a rank so far."""
        return self._tallies[rank].counts if rank in self._tallies else {}

    def estimates(
        self,
        device: str,
        rank: int,
        statistics: Statistics,
        total_j: float,
        run_s: float,
        on_device: Mapping[int, float] | None = None,
    ) -> None:
        """What the estimator knows now of a device that belongs to one rank.

        Args:
            total_j: of its meter so far.
            run_s: how long the run has gone on.
            on_device: seconds of the phases on the device's own clock, where that is known.
        """
        self._rank[device] = rank
        seconds = self.seconds(rank)
        seconds[UNATTRIBUTED] = max(0.0, run_s - sum(seconds.values()))
        spent = seconds
        if on_device is not None:
            spent = {**on_device, UNATTRIBUTED: max(0.0, run_s - sum(on_device.values()))}
        solution = estimate(statistics, total_j, spent)
        if solution is None:
            return
        phases = {code: solution.of(code) for code in solution.codes}
        self._shares.setdefault(device, _Shares()).state(
            {
                code: _StatedPhase(phase, seconds.get(code, 0.0))
                for code, phase in phases.items()
                if phase.status is not Status.NOT_IDENTIFIABLE
            },
            seconds,
        )

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
            rank = self._rank.get(device)
            seconds = self.seconds(rank)
            shares.hand_out(total_j, seconds)
            for code, given in sorted(shares.given.items()):
                name = phase_name_of(code, names.get(rank, {}) if rank is not None else {})
                if (stated := shares.stated.get(code)) is None:
                    yield LivePhase(name, device, given)
                else:
                    # The meter has gone on since the estimate: its joules as they were would be a
                    # smaller share of the energy every second until the next one.
                    best, now_j = stated.estimate, stated.by(seconds.get(code, 0.0))
                    growth = now_j / best.energy_j if best.energy_j > 0 else 1.0
                    yield LivePhase(
                        name,
                        device,
                        given,
                        now_j,
                        best.low_j * growth,
                        best.high_j * growth,
                        str(best.status),
                    )

    def times(self, names: Mapping[int, Mapping[int, str]]) -> Iterable[LiveTime]:
        """Every phase of every rank."""
        for rank, counting in sorted(self._tallies.items()):
            for code, spent in counting.seconds().items():
                yield LiveTime(
                    phase_name_of(code, names.get(rank, {})), rank, spent, counting.counts[code]
                )


def phase_name_of(code: int, names: Mapping[int, str]) -> str:
    """The name of a phase; ``names``: of the rank's codes."""
    if code == UNATTRIBUTED:
        return str(Phase.UNATTRIBUTED)
    return names.get(code, str(Phase.OTHER))
