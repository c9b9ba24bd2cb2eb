"""What became of a training whose process has ended: its outcome, from its run and its log."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from probe.compare.progress import SMOOTHED
from probe.errors import ProbeError
from probe.store.catalogue.labels import change_labels
from probe.store.seals import await_seal
from probe.target import Target

from ..objective import Objective
from ..outcome import Cost, Outcome, State
from . import read_run

LOG, RUNS = "log.txt", "runs"
_TAIL = 4096  # bytes of a log that may say why
_LONGEST_WHY = 200
_BY_SIGNAL = {signal.SIGKILL: " (the system does so where memory ends)"}


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended with ``code``, or was ``stopped`` for a reason."""

    code: int
    stopped: State | None = None
    why: str = ""


class OutcomeReader:
    """Reads outcomes in the folder of a search."""

    def __init__(self, folder: Path, objective: Objective, target: Target):
        """``folder`` is the search's."""
        self._folder, self._objective, self._target = folder, objective, target

    def outcome(self, place: Path, ended: Ended) -> Outcome:
        """Of the training in its own folder; its cost has the joules, not the seconds."""
        run = read_run.only_run(place / RUNS)
        joules = None
        if run is not None:
            await_seal(run)
            _archive(run)
            with contextlib.suppress(ProbeError):
                joules = read_run.cost_of(run).joules
        cost, where = Cost(0.0, joules), self._relative(run)
        if ended.stopped is not None:
            at_least = None if run is None else self._at_least(run)
            return Outcome(ended.stopped, cost, at_least=at_least, run=where, why=ended.why)
        if ended.code:
            return Outcome(State.FAILED, cost, run=where, why=_why(ended.code, place / LOG))
        if run is None:
            count = len(list((place / RUNS).glob("*/run.json")))
            why = (
                f"it recorded {count} runs, not one: watch it with optimizers.Trainer, "
                "probe.watch() or `probe run --`, and let it keep its run where PROBE_DIR says"
            )
            return Outcome(State.FAILED, cost, why=why)
        try:
            return self._of_run(run, cost, where)
        except ProbeError as error:
            return Outcome(State.FAILED, cost, run=where, why=str(error))

    def interrupted(self, place: Path, started: float) -> Outcome:
        """Of a training that was killed with its search: as long as its run, or its log, shows.

        Args:
            place: the training's own folder.
            started: in seconds since 1970.
        """
        cost = Cost(0.0)
        with contextlib.suppress(OSError):
            cost = Cost(max(0.0, (place / LOG).stat().st_mtime - started))
        run = read_run.only_run(place / RUNS)
        if run is not None:
            with contextlib.suppress(ProbeError):
                cost = read_run.cost_of(run)
            _archive(run)
        return Outcome(
            State.INTERRUPTED, cost, run=self._relative(run), why="the search was killed"
        )

    def _of_run(self, run: Path, cost: Cost, where: str | None) -> Outcome:
        """Raises StoreError."""
        reached = read_run.to_target(run, self._target)
        if reached is None:
            return self._missed(run, cost, where)
        value = self._objective.of(reached.seconds, reached.joules)
        if value is None:
            return Outcome(State.FAILED, cost, run=where, why="no meter measured its energy")
        return Outcome(State.REACHED, cost, value, run=where)

    def _missed(self, run: Path, cost: Cost, where: str | None) -> Outcome:
        """Raises StoreError."""
        metric = self._target.metric
        seen = read_run.progress(run, self._target, energy=self._objective.needs_meter)
        state = State.DIVERGED if seen.diverged else State.MISSED
        if seen.diverged:
            why = f"{metric} is not finite"
        elif seen.last is None:
            logged = ", ".join(seen.logged) or "nothing"
            why = f"it never logged {metric}, the target's metric; it logged {logged}"
        else:
            mean = f" (a mean of {SMOOTHED})" if seen.smoothed else ""
            why = f"it ended at {metric}={seen.last:.4g}{mean}, short of {self._target}"
        return Outcome(state, cost, at_least=self._spent(seen), run=where, why=why)

    def _at_least(self, run: Path) -> float | None:
        with contextlib.suppress(ProbeError):
            energy = self._objective.needs_meter
            return self._spent(read_run.progress(run, self._target, energy=energy))
        return None

    def _spent(self, seen: read_run.Progress) -> float | None:
        return self._objective.of(seen.spent.seconds, seen.spent.joules)

    def _relative(self, run: Path | None) -> str | None:
        return None if run is None else os.path.relpath(run, self._folder)


def _archive(run: Path) -> None:
    """Lists of runs leave it out, unless they are asked for all."""
    with contextlib.suppress(ProbeError, OSError):
        change_labels(run, add=("search",), archived=True)


def _why(code: int, log: Path) -> str:
    """In one line, from the end of what it printed."""
    by = f"it ended with {code}"
    with contextlib.suppress(ValueError):
        if code < 0:
            number = signal.Signals(-code)
            by = f"it was ended by {number.name}{_BY_SIGNAL.get(number, '')}"
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").splitlines()
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"{by}: {said[:_LONGEST_WHY]}" if said else by
    return by
