"""The runs whose phases can be told apart: on these the joules per phase are compared.

A phase that one run refuses cannot be compared with those that state it. If it is large, the runs
that refuse it are left out of the joules by phase, and named, where enough others of both sides
state it. Else it is refused in all runs: fewer runs would tell less of all phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .run_record import Trial
from .statistics import FEWEST_RUNS

_LARGE = 0.25  # of a run's time

Places = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class StatedPhases:
    """Runs of both sides that are compared phase by phase; ``pairs`` are places among these."""

    bases: Sequence[Trial]
    others: Sequence[Trial]
    pairs: Places
    left_out: Sequence[str] = ()  # ids

    @classmethod
    def of(cls, bases: Sequence[Trial], others: Sequence[Trial], pairs: Places) -> StatedPhases:
        """All runs but those that refuse a large phase that enough others state.

        Args:
            pairs: places of runs that share a block; empty: two groups.
        """
        refusing: dict[str, set[str]] = {}
        for trial in (*bases, *others):
            for phase in refused_in(trial):
                if trial.all_stages.phases[phase].time_s < _LARGE * trial.all_stages.time_s:
                    continue
                refusing.setdefault(phase, set()).add(trial.id)
        every = cls(bases, others, pairs)
        kept, left_out = every, set[str]()
        for ids in sorted(refusing.values(), key=len):
            fewer = every._without(left_out | ids)
            if fewer._is_enough():
                kept, left_out = fewer, left_out | ids
        return kept

    def _without(self, ids: set[str]) -> StatedPhases:
        if self.pairs:
            stay = [
                (i, j)
                for i, j in self.pairs
                if self.bases[i].id not in ids and self.others[j].id not in ids
            ]
            bases, others = [self.bases[i] for i, _ in stay], [self.others[j] for _, j in stay]
            pairs = [(place, place) for place in range(len(stay))]
            return StatedPhases(bases, others, pairs, sorted(ids))
        bases, others = (
            [trial for trial in side if trial.id not in ids] for side in (self.bases, self.others)
        )
        return StatedPhases(bases, others, [], sorted(ids))

    def _is_enough(self) -> bool:
        return min(len(self.bases), len(self.others)) >= FEWEST_RUNS


def refused_in(trial: Trial) -> frozenset[str]:
    """Phases whose joules a run cannot tell apart."""
    return frozenset(
        phase
        for phase, use in trial.all_stages.phases.items()
        if use.energy_j is None and use.time_s > 0
    )
