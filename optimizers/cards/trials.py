"""The trainings of cards: an ablation's runner, but a technique that fails ends no other one.

Beside the files of an ablation, the folder holds::

    cards.json      the design and the command
    failed.jsonl    one line for a technique's trial that ended badly: block, arm, why
    cards/          a page for each technique, and README.md
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from probe.redact import redact_text
from probe.report.sentences import short
from probe.store.layout import CARDS_FILE

from ..ablation.design import Arm
from ..ablation.runner import Ablation, TrialFailed, append_line, read_lines
from .design import BASE, CardDesign

_FAILED = "failed.jsonl"
_LONGEST = 300
_EXCEPTION = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z]\w*: ")  # as a traceback's last line begins


@dataclass(frozen=True, slots=True)
class Failed:
    """A technique's trial that ended badly; ``why`` is the last line that it printed."""

    block: int
    arm: str
    why: str


class CardTrials(Ablation):
    """A design of cards and its command, with the trials that a folder holds of them."""

    file: ClassVar[str] = CARDS_FILE
    what: ClassVar[str] = "set of cards"
    design: CardDesign

    @classmethod
    def _design_of(cls, stored: Any) -> CardDesign:
        return CardDesign(
            stored["kind"],
            tuple(stored["techniques"]),
            stored["blocks"],
            stored["seed"],
            stored["base"],
        )

    def failed(self) -> dict[str, Failed]:
        """The first trial that failed of each technique that has one."""
        first: dict[str, Failed] = {}
        for failure in read_lines(self.folder / _FAILED, Failed):
            first.setdefault(failure.arm, failure)
        return first

    def missing(self) -> list[tuple[int, Arm]]:
        """Trials still to be run: none of a technique that has failed, it can get no verdict."""
        failed = self.failed()
        return [(block, arm) for block, arm in super().missing() if arm.name not in failed]

    def _trial(self, block: int, arm: Arm) -> None:
        """Raises TrialFailed where the base fails: then it is the command, not a technique."""
        try:
            super()._trial(block, arm)
        except TrialFailed as failure:
            if arm.name == BASE:
                raise
            if not any(trial.arm == BASE for trial in self.done()):
                super()._trial(block, next(a for a in self.design.arms(block) if a.name == BASE))
            why = _last_line(failure.log) or str(failure)
            append_line(self.folder / _FAILED, asdict(Failed(block, arm.name, why)))


def _last_line(log: Path | None) -> str:
    """Without the name of an exception's class, and without secrets; "" if there is none."""
    if log is None:
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return short(redact_text(_EXCEPTION.sub("", last)), _LONGEST)
