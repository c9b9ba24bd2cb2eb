"""What a sample costs, phase by phase: the first table of a comparison.

Everything is per unit of work (sample, token, step). What a run has once (its start, its end) is
divided by the base run's samples on both sides, so that a longer run does not look cheaper. What
cannot be told apart in one of the runs that are compared is told apart in none: its joules are in
``unresolved``. So the rows add up to what a sample costs in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..attribution.arrays import Floats
from ..model import Phase, Provenance, Status
from .gain import Gain, Verdict, closed
from .model import PhaseGain, Spent
from .quantity import Frame, gain, p_beyond, sign_of
from .run_record import ONCE, Trial
from .stated_phases import StatedPhases, refused_in
from .statistics import contrast, holm

ALL = "all"
_ORDER = [str(phase) for phase in Phase]
_CLOSING = (Phase.OTHER, Phase.UNATTRIBUTED, Phase.UNRESOLVED)
_ALPHA = 0.05
_NONE = Verdict.NO_EVIDENCE


@dataclass(frozen=True, slots=True)
class _Amounts:
    """Seconds or joules of one run, (phases,): what grows with its samples, and what comes once."""

    samples: float
    grows: Floats
    once: Floats

    def per_unit(self, base_samples: float) -> Floats:
        """Per sample, in a run of the base's number of samples."""
        return np.asarray(self.grows / self.samples + self.once / base_samples)


class PhaseGains:
    """The rows of one comparison.

    Args:
        energy: how joules of both sides came about; None if they are not known of all runs.
    """

    def __init__(
        self,
        bases: Sequence[Trial],
        others: Sequence[Trial],
        frame: Frame,
        energy: Provenance | None,
    ):
        self._energy = energy
        stated = StatedPhases(bases, others, frame.pairs)
        if energy is Provenance.MEASURED:
            stated = StatedPhases.of(bases, others, frame.pairs)
        self.left_out: Sequence[str] = stated.left_out
        """Ids of runs that refuse what the others state; their time is compared all the same."""
        self._stated = [*stated.bases, *stated.others]
        self._refused: frozenset[str] = frozenset()
        if energy is not None:
            self._refused = frozenset().union(*map(refused_in, self._stated))
        self._phases = _phases([*bases, *others], self._stated, self._refused)
        self._time = self._judged(bases, others, frame, of_energy=False)
        self._joules = None
        if energy is not None:
            of_stated = replace(frame, pairs=stated.pairs)
            self._joules = self._judged(stated.bases, stated.others, of_stated, of_energy=True)

    def rows(self) -> list[PhaseGain]:
        """One for each phase, in the order of the training loop; those that close the sum last."""
        return [self._row(place, phase) for place, phase in enumerate(self._phases)]

    def total(self) -> PhaseGain:
        """The sum of all rows."""
        return self._row(len(self._phases), ALL)

    def _row(self, place: int, phase: str) -> PhaseGain:
        time = self._time[place]
        is_refused = phase in self._refused
        joules = None if self._joules is None or is_refused else self._joules[place]
        leading = self._time if self._energy is not Provenance.MEASURED else self._joules
        assert leading is not None
        own, total = leading[place], leading[-1]
        measured = self._energy is Provenance.MEASURED
        sure = total.verdict is not Verdict.NO_EVIDENCE and not (measured and is_refused)
        return PhaseGain(
            phase=phase,
            base=Spent(time.base or 0.0, None if joules is None else joules.base),
            other=Spent(time.other or 0.0, None if joules is None else joules.other),
            gain_j=None if joules is None else joules.gain,
            gain_j_interval=closed(joules.interval) if measured and joules else None,
            gain_s=time.gain or 0.0,
            gain_s_interval=closed(time.interval),
            share=own.gain / total.gain if sure and own.gain is not None and total.gain else None,
            verdict=Verdict.NO_EVIDENCE
            if measured and (is_refused or phase == Phase.UNRESOLVED)
            else own.verdict,
            time_verdict=time.verdict,
            status=self._status(phase),
            provenance=self._provenance(phase),
        )

    def _status(self, phase: str) -> Status:
        if phase in self._refused or phase == Phase.UNRESOLVED:
            return Status.NOT_IDENTIFIABLE
        uses = [
            stage.phases[phase]
            for trial in self._stated
            if phase in (stage := trial.all_stages).phases
        ]
        weak = any(use.status is not Status.RESOLVED for use in uses)
        return Status.WEAK if weak and self._energy is Provenance.MEASURED else Status.RESOLVED

    def _provenance(self, phase: str) -> Provenance | None:
        if self._energy is not Provenance.MEASURED:
            return self._energy
        return Provenance.MEASURED if phase == ALL else Provenance.ESTIMATED

    def _judged(
        self, bases: Sequence[Trial], others: Sequence[Trial], frame: Frame, *, of_energy: bool
    ) -> list[Gain]:
        """The gain of each phase, then of all; the verdicts on phases are adjusted (Holm)."""
        base_rows, other_rows = (
            [self._amounts(trial, of_energy=of_energy) for trial in side]
            for side in (bases, others)
        )
        width = len(self._phases) + 1

        def pair(i: int, j: int) -> Floats:
            samples = base_rows[i].samples
            base, other = base_rows[i].per_unit(samples), other_rows[j].per_unit(samples)
            saved = base - other
            return np.concatenate([saved, [saved.sum()], base, [base.sum()]])

        measured = contrast(frame.pairs, len(bases), len(others), pair)
        halves = [
            frame.meter_half(*map(float, measured.value[[place, width + place]]))
            if of_energy
            else 0.0
            for place in range(width)
        ]
        p_values = measured.p_values()
        if of_energy and not frame.same_meters:
            p_values = np.array([p_beyond(measured, at, half) for at, half in enumerate(halves)])
        asked = [at for at in range(width - 1) if any(g[:, at].any() for g in measured.groups)]
        adjusted = dict(zip(asked, holm(p_values[asked]), strict=True))
        gains = []
        for place in range(width):
            base = float(measured.value[width + place])
            row = gain(measured, place, frame, base=base, meter_half=halves[place])
            saved = float(measured.value[place])
            verdict = row.verdict
            if place < width - 1:
                clear = adjusted.get(place, 1.0) < _ALPHA
                verdict = frame.allows(sign_of(saved, saved)) if clear else _NONE
            if any(frame.missed) and verdict is Verdict.GAIN:
                verdict = _NONE
            if of_energy and self._energy is Provenance.MODELLED:
                verdict = _NONE
            gains.append(
                Gain(
                    gain=saved,
                    interval=row.interval,
                    verdict=verdict,
                    base=base,
                    other=base - saved,
                )
            )
        return gains

    def _amounts(self, trial: Trial, *, of_energy: bool) -> _Amounts:
        stage = trial.all_stages
        grows, once = np.zeros(len(self._phases)), np.zeros(len(self._phases))
        place = {phase: at for at, phase in enumerate(self._phases)}
        for phase, use in stage.phases.items():
            if phase not in place:
                continue
            into = once if phase in ONCE else grows
            if not of_energy:
                into[place[phase]] += use.time_s
            elif phase not in self._refused:
                into[place[phase]] += use.energy_j or 0.0
            else:
                # The sum of the refused is divided by the samples, whatever is in it.
                grows[place[Phase.UNRESOLVED]] += use.energy_j or 0.0
        if of_energy and Phase.UNRESOLVED in place:
            grows[place[Phase.UNRESOLVED]] += stage.unidentified.energy_j
        return _Amounts(stage.samples or 1.0, grows, once)


def _phases(trials: Iterable[Trial], stated: Iterable[Trial], refused: frozenset[str]) -> list[str]:
    """All phases in which any run spent anything, in the order of the training loop."""
    phases = {
        phase
        for trial in trials
        for phase, use in trial.all_stages.phases.items()
        if use.time_s > 0 or use.energy_j
    }
    if refused or any(trial.all_stages.unidentified.energy_j for trial in stated):
        phases.add(Phase.UNRESOLVED)

    def order(phase: str) -> tuple[bool, int, str]:
        root = phase.partition("/")[0]
        place = _ORDER.index(root if root in _ORDER else Phase.INFERENCE)
        return phase in _CLOSING, place, phase

    return sorted(map(str, phases), key=order)
