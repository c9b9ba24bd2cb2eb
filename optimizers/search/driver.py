"""Goes round: what is trained next, train it, keep it; until nothing is left to do."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from .budget import Budget
from .knobs import Knob
from .measured import configurations
from .outcome import NOTHING, Job, Limits, Outcome, Part, Settings, State, Training, key_of, written
from .plan import MOST_REPEATED, BeginProof, Finished, Situation, Suggest, Train, Wait, next_step
from .proof import Sides
from .store import Store

Say = Callable[[str], None]
FRESH_SEEDS = 1000  # the proof's begin here; no search trains so often
_WAIT_S = 1.0
_ROUNDING = 1e-9


class Trainings(Protocol):
    """What trains: processes, or a simulation.

    ``ending_s``: of the seconds that a training may take, those that it keeps for its end.
    """

    ending_s: float

    def refused(self, settings: Settings) -> str:
        """Why these settings cannot be trained at all; empty if they can."""

    def train(self, job: Job, limits: Limits) -> Outcome:
        """Train once. A training that fails is an outcome, not an error."""

    def interrupted(self, training: Training) -> Outcome:
        """What a training has cost that was killed together with its search."""

    def sides(self, default: Sequence[Training], champion: Sequence[Training]) -> Sides:
        """The runs of the proof, in pairs."""


class Driver:
    """One host's part in a search."""

    def __init__(
        self,
        store: Store,
        trainings: Trainings,
        knobs: Sequence[Knob],
        budget: Budget,
        *,
        host: str,
        say: Say,
        clock: Callable[[], float] = time.time,
    ):
        """``say`` is called with a line of progress; ``clock`` gives seconds since 1970."""
        self._store, self._trainings, self._budget = store, trainings, budget
        self._space = 1.0
        for knob in knobs:
            self._space *= knob.size
        self._host, self._say, self._clock = host, say, clock

    def run(self) -> None:
        """Train until nothing is left to do. Raises UsageError if the search cannot go on."""
        self._recover()
        while True:
            situation = self.situation()
            step = next_step(situation)
            if isinstance(step, Finished):
                return
            if isinstance(step, BeginProof):
                self._store.keep_proof(step)
                self._say(f"champion: {written(step.settings)}; {step.pairs} pairs prove it")
            elif isinstance(step, Wait):
                time.sleep(_WAIT_S)
            elif isinstance(step, Suggest):
                self._suggested(situation, step)
            else:
                self._again(step)

    def situation(self) -> Situation:
        """As the store has it now."""
        return Situation(
            self._store.trainings(),
            self._budget,
            self._space,
            self._host,
            self._clock(),
            self._store.proof(),
            self._trainings.ending_s,
        )

    def _recover(self) -> None:
        """Charge what was killed together with an earlier process of this host."""
        for training in self._store.trainings():
            if training.outcome is None and training.host == self._host:
                outcome = self._trainings.interrupted(training)
                self._store.keep(replace(training, outcome=outcome))

    def _suggested(self, situation: Situation, step: Suggest) -> None:
        number, settings = self._store.suggest(own=step.own, random=step.random)
        tried = {key_of(each.settings): each for each in configurations(situation.trainings)}
        same = tried.get(key_of(settings))
        training = Training(
            Part.SEARCH,
            number,
            settings,
            0 if same is None else same.seeds,
            self._host,
            self._clock(),
            NOTHING,
            place=f"trials/{number:04d}",
        )
        if same is not None and (same.failures or len(same.values) >= MOST_REPEATED):
            value = same.mean if same.is_sound else None
            self._store.keep(replace(training, outcome=Outcome(State.KNOWN, NOTHING, value)))
        elif why := self._trainings.refused(settings):
            self._store.keep(replace(training, outcome=Outcome(State.REFUSED, NOTHING, why=why)))
        else:
            # A mean of those that were not pruned would be too good.
            limits = step.limits if same is None else replace(step.limits, value=math.inf)
            self._train(replace(training, limit=limits.cost), limits)

    def _again(self, step: Train) -> None:
        number = self._store.number()
        proves = step.part is Part.PROOF
        training = Training(
            step.part,
            number,
            step.settings,
            step.seed + FRESH_SEEDS * proves,
            self._host,
            self._clock(),
            step.limits.cost,
            step.block,
            f"{'proof' if proves else 'again'}/{number:04d}",
        )
        self._train(training, step.limits)

    def _train(self, training: Training, limits: Limits) -> None:
        self._store.keep(training)
        if self._is_too_much(training):
            outcome = Outcome(State.INTERRUPTED, NOTHING, why="another host took the budget")
            self._store.keep(replace(training, outcome=outcome))
            return
        outcome = self._trainings.train(
            Job(training.place, training.settings, training.seed), limits
        )
        self._store.keep(replace(training, outcome=outcome))
        self._progress(training, outcome)

    def _is_too_much(self, begun: Training) -> bool:
        """Whether hosts that looked at the same time began more than the budget is enough for.

        Then those that began earlier go on.
        """
        before = (begun.started, begun.host)
        spent = NOTHING
        for training in self._store.trainings():
            if training.outcome is not None or (training.started, training.host) < before:
                spent = spent.plus(training.charged)
        return not self._budget.minus(spent).covers(begun.limit, 1 - _ROUNDING)

    def _progress(self, training: Training, outcome: Outcome) -> None:
        what = f"{training.place}  {written(training.settings)}, seed {training.seed}"
        self._say(f"{what}: {outcome.state}{f' ({outcome.why})' if outcome.why else ''}")
