"""Trains in processes: each with a folder and a run of its own, watched, ended by its limits."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probe.errors import ProbeError
from probe.target import Target

from ...errors import TechniqueRefused, UsageError
from ...trial_folder import end_with_parent, trial_environment
from ..command_line import CommandLine
from ..objective import Objective
from ..outcome import Job, Limits, Outcome, Settings, State, Training
from ..proof import Sides
from . import read_run
from .ended import LOG, RUNS, Ended, OutcomeReader

_TURN_S = 0.05
_LOOK_S = 0.5  # between two looks into a run, which take some of the machine
_LOOK_SHARE = 0.05  # and at least this share of how long it has trained
_TERM_S = 2.0  # after SIGTERM comes SIGKILL
_READ_S = 1.0  # about what it takes to read a run that has ended
_GOES_ON = Ended(0)


class ProcessTrainings:
    """Trains a command."""

    ending_s = _TERM_S + _READ_S

    def __init__(
        self,
        folder: Path,
        command: CommandLine,
        objective: Objective,
        target: Target,
        *,
        needs_joules: bool,
    ):
        """``needs_joules``: the joules of a training are watched while it goes on."""
        self._folder, self._command, self._objective = folder, command, objective
        self._target, self._needs_joules = target, needs_joules
        self._outcomes = OutcomeReader(folder, objective, target)

    def refused(self, settings: Settings) -> str:
        """Why these techniques do not go together; empty if they do."""
        text = self._command.stack(settings)
        if text is None:
            return ""
        from ...stack import Stack

        try:
            Stack.of(text)
        except TechniqueRefused as error:
            return str(error)
        return ""

    def train(self, job: Job, limits: Limits) -> Outcome:
        """Train once. Raises UsageError if there is no such command."""
        place = self._folder / job.name
        place.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        process = self._start(job, place)
        try:
            stopped = self._watch(process, begin, place / RUNS, limits)
        finally:
            _stop(process)
        outcome = self._outcomes.outcome(place, replace(stopped, code=process.returncode))
        return replace(outcome, cost=replace(outcome.cost, seconds=time.monotonic() - begin))

    def interrupted(self, training: Training) -> Outcome:
        """What was trained when the search was killed."""
        return self._outcomes.interrupted(self._folder / training.place, training.started)

    def sides(self, default: Sequence[Training], champion: Sequence[Training]) -> Sides:
        """The runs of the proof. Raises UsageError, StoreError."""
        paths = [
            [self._folder / t.outcome.run for t in side if t.outcome is not None and t.outcome.run]
            for side in (default, champion)
        ]
        return read_run.sides(paths[0], paths[1], self._target, "champion")

    def _start(self, job: Job, place: Path) -> subprocess.Popen[bytes]:
        words = self._command.filled(job.settings, job.seed)
        environment = trial_environment(place / RUNS)
        environment |= self._command.environment(job.settings)
        with (place / LOG).open("wb") as log:
            try:
                return subprocess.Popen(
                    words,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=end_with_parent,
                )
            except OSError as error:
                raise UsageError(f"cannot run {words[0]!r}: {error.strerror}") from None

    def _watch(
        self, process: subprocess.Popen[bytes], begin: float, runs: Path, limits: Limits
    ) -> Ended:
        """Until the process ends or has to, and why it has to."""
        looked = 0.0
        while process.poll() is None:
            seconds = time.monotonic() - begin
            if seconds >= limits.hung_s:
                return Ended(0, State.HUNG, f"it was not done after {seconds:.0f} s")
            if seconds + self.ending_s >= limits.cost.seconds:
                return Ended(0, State.OUT_OF_BUDGET, "the budget of time was used up")
            if seconds - looked >= max(_LOOK_S, _LOOK_SHARE * seconds):
                seen = self._look(runs, seconds, limits)
                if seen.stopped is not None:
                    return seen
                looked = time.monotonic() - begin
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_TURN_S)
        return _GOES_ON

    def _look(self, runs: Path, seconds: float, limits: Limits) -> Ended:
        """Whether what a run shows so far is a reason to stop it."""
        run = read_run.only_run(runs)
        if run is None:
            return _GOES_ON
        try:
            joules = read_run.live_joules(run) if self._needs_joules else None
            if joules is not None and joules >= (limits.cost.joules or joules + 1):
                return Ended(0, State.OUT_OF_BUDGET, "the budget of energy was used up")
            so_far = self._objective.of(seconds, joules)
            beyond = so_far is not None and so_far > limits.value
            energy = beyond and self._objective.needs_meter
            seen = read_run.progress(run, self._target, energy=energy)
        except (ProbeError, OSError):  # not all of it is written yet
            return _GOES_ON
        if seen.diverged:
            return Ended(0, State.DIVERGED, f"{self._target.metric} is not finite")
        spent = self._objective.of(seen.spent.seconds, seen.spent.joules) if beyond else None
        if spent is None or seen.reached or spent <= limits.value:
            return _GOES_ON
        said = self._objective.written
        most = f"a training of the best so far takes at most {said(limits.value)}"
        return Ended(0, State.PRUNED, f"more than {said(spent)}; {most}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it started, at first kindly."""
    for number, patience_s in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, None)):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # workers that outlived it
