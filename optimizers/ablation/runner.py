"""Runs an ablation's trials, each in a fresh process, one at a time; can be continued.

The folder of an ablation::

    ablation.json               the design and the command
    trials.jsonl                one line for every trial that ended well: block, arm, run
    trials/00-precision/        of block 0: its runs/, and log.txt with what it printed
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from probe.errors import ProbeError
from probe.model import RunStatus
from probe.redact import HIDDEN, redact_command, redact_config
from probe.report.model import JsonValue
from probe.report.numbers import duration
from probe.store.files import write_json
from probe.store.layout import ABLATION_FILE
from probe.store.reader import RunReader
from probe.store.runs import list_runs
from probe.store.seals import await_seal

from ..errors import UsageError
from ..trial_folder import alone, end_with_parent, new_place, trial_environment
from .design import Arm, Design

Say = Callable[[str], None]
_STACK, _SEED = "{stack}", "{seed}"
_Line = TypeVar("_Line")


class TrialFailed(ProbeError):
    """A trial ended badly; what was done is kept. ``log`` is what it printed, if it began."""

    def __init__(self, message: str, log: Path | None = None):
        super().__init__(message)
        self.log = log


@dataclass(frozen=True, slots=True)
class Done:
    """A trial that ended well."""

    block: int
    arm: str
    run: str  # relative to the ablation's folder
    seconds: float


class Ablation:
    """A design and a command, with the trials that a folder holds of them.

    ``file`` holds both, ``what`` is the word for them in messages.
    """

    file: ClassVar[str] = ABLATION_FILE
    what: ClassVar[str] = "ablation"

    def __init__(self, folder: Path, design: Design, command: Sequence[str]):
        """Open the folder, or begin an ablation in it.

        Args:
            command: words in which ``{stack}`` and ``{seed}`` are filled in.

        Raises:
            UsageError: the command has no ``{stack}``, or another ablation lies in the folder.
        """
        if not any(_STACK in word for word in command):
            raise UsageError(
                "the command must say where the stack goes: "
                "-- python train.py --stack {stack} --seed {seed}"
            )
        if not any(_SEED in word for word in command) and design.blocks > 1:
            raise UsageError("the command must say where the seed goes: … --seed {seed}")
        self.folder, self.design, self.command = folder, design, list(command)
        settings = {
            "schema": 1,
            "design": asdict(design) | {"techniques": list(design.techniques)},
            "command": redact_command(self.command),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / self.file).exists():
                if redact_config(self._stored()) != settings:
                    raise UsageError(
                        f"{folder} holds another {self.what}: give another --dir, or "
                        "the same words to go on with it"
                    )
            else:
                write_json(folder / self.file, settings)
        except OSError as error:
            raise UsageError(f"cannot write to {folder}: {error.strerror}") from None

    @classmethod
    def open(cls, folder: Path) -> Self:
        """What was begun in a folder. Raises UsageError if there is none."""
        try:
            settings = json.loads((folder / cls.file).read_text(encoding="utf-8"))
            return cls(folder, cls._design_of(settings["design"]), settings["command"])
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageError(f"{folder} holds no {cls.what}") from None

    @classmethod
    def _design_of(cls, stored: Any) -> Design:
        """The design as the folder's file holds it. Raises KeyError, TypeError."""
        return Design(stored["kind"], tuple(stored["techniques"]), stored["blocks"], stored["seed"])

    def _stored(self) -> Any:
        with contextlib.suppress(ValueError):
            return json.loads((self.folder / self.file).read_text(encoding="utf-8"))
        return None

    def done(self) -> list[Done]:
        """Trials that ended well, whose runs are still there."""
        trials = [
            trial
            for trial in read_lines(self.folder / "trials.jsonl", Done)
            if (self.folder / trial.run).is_dir()
        ]
        return list({(trial.block, trial.arm): trial for trial in trials}.values())

    def missing(self) -> list[tuple[int, Arm]]:
        """Trials still to be run, in their order."""
        finished = {(trial.block, trial.arm) for trial in self.done()}
        return [
            (block, arm)
            for block in range(self.design.blocks)
            for arm in self.design.order(block)
            if (block, arm.name) not in finished
        ]

    def run(self, say: Say) -> None:
        """Run what is missing.

        Raises:
            TrialFailed: a trial failed; the same command continues.
            UsageError: another process runs this ablation, or its command is known without its
                secrets only.
        """
        with alone(self.folder, self.what):
            left = self.missing()
            if left and any(HIDDEN in word for word in self.command):
                raise UsageError(
                    f"{self.folder} does not hold the secrets of its command: give the same "
                    "techniques and words again to go on with it"
                )
            total = len(left) + len(self.done())
            if len(left) < total:
                say(f"{total - len(left)} of {total} trials were done before")
            begin, before = time.monotonic(), len(left)
            while left:  # asked again each time: what a trial shows may change what is left
                at = before - len(left)
                block, arm = left[0]
                say(
                    f"[{total - len(left) + 1}/{total}] block {block}, {arm.name}"
                    + _time_left(time.monotonic() - begin, at, before)
                )
                self._trial(block, arm)
                left = self.missing()

    def _trial(self, block: int, arm: Arm) -> None:
        place = new_place(self.folder / "trials", f"{block:02d}-{arm.name}")
        if place is None:
            raise TrialFailed(f"{self.folder / 'trials'} is full of attempts at {arm.name}")
        words = [
            word.replace(_STACK, arm.stack).replace(_SEED, str(block)) for word in self.command
        ]
        environment = trial_environment(place / "runs")
        begin = time.monotonic()
        with (place / "log.txt").open("wb") as log:
            try:
                code = subprocess.run(
                    words,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env=environment,
                    check=False,
                    preexec_fn=end_with_parent,
                ).returncode
            except OSError as error:
                raise TrialFailed(f"cannot run {words[0]!r}: {error.strerror}") from None
        if code:
            raise TrialFailed(
                f"the trial {arm.name} of block {block} ended with {code}: see "
                f"{place / 'log.txt'}; run the same command again to try it once more",
                place / "log.txt",
            )
        spent_s = time.monotonic() - begin
        runs = _finished(place / "runs")
        if len(runs) != 1:
            raise TrialFailed(
                f"the trial {arm.name} of block {block} recorded {len(runs)} finished runs, not "
                "one: watch it with optimizers.Trainer, probe.watch() or `probe run --`, and let "
                "it keep its run where PROBE_DIR says",
                place / "log.txt",
            )
        trial = Done(block, arm.name, str(runs[0].relative_to(self.folder)), spent_s)
        append_line(self.folder / "trials.jsonl", asdict(trial))


def _finished(directory: Path) -> list[Path]:
    runs = list_runs(directory)
    for run in runs:
        await_seal(run)
    return [run for run in runs if RunReader(run).status is RunStatus.FINISHED]


def read_lines(file: Path, kind: Callable[..., _Line]) -> list[_Line]:
    """Every whole line of a file as ``kind``; none without the file."""
    lines = []
    with contextlib.suppress(FileNotFoundError):
        for line in file.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, TypeError):  # a torn last line
                lines.append(kind(**json.loads(line)))
    return lines


def append_line(file: Path, values: Mapping[str, JsonValue]) -> None:
    """Add a line that a kill cannot take back."""
    with file.open("a", encoding="utf-8") as open_file:
        open_file.write(json.dumps(values) + "\n")
        open_file.flush()
        os.fsync(open_file.fileno())


def _time_left(spent_s: float, done: int, all_: int) -> str:
    return f"; about {duration(spent_s / done * (all_ - done))} left" if done else ""
