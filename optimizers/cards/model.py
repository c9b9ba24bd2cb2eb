"""Cards as they are printed. Fields are named as the keys of the JSON of ``probe card``.

Positive gains are saved, or better; intervals are 95 %; what is not known is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from probe.compare.gain import OpenInterval, Verdict
from probe.compare.model import Comparison
from probe.report.model import JsonValue
from probe.report.serialization import to_dict


class Word(StrEnum):
    """Whether a technique pays here, as far as the trainings show."""

    PAYS = "pays"
    TRADES = "trades"
    NO_EVIDENCE = "no evidence"
    COSTS = "costs"
    NOT_MEASURED = "not measured here"


GLYPHS: Mapping[Word, str] = {
    Word.PAYS: "✔",
    Word.TRADES: "⇄",
    Word.NO_EVIDENCE: "○",
    Word.COSTS: "✘",
    Word.NOT_MEASURED: "–",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One quantity on both sides: time, energy, memory or quality.

    ``verdict`` is that of ``probe compare``, as if it were the only question; ``p`` the p-value of
    no difference, ``adjusted_p`` the same among all questions of all cards (Holm), and
    ``adjusted_verdict`` the verdict where that is below 5 %.
    """

    quantity: str
    base: float | None
    other: float | None
    gain: float | None
    interval: OpenInterval | None
    percent: float | None
    verdict: Verdict
    p: float | None
    adjusted_p: float | None = None
    adjusted_verdict: Verdict = Verdict.NO_EVIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A technique on the base: its verdict and why, what was measured and what it predicted.

    ``measured`` are the quantities on which the verdict rests: to the target where the runs have
    one, else at equal work. ``failed`` says how its first bad trial ended, "" if none did.
    ``page`` is relative to the folder.
    """

    technique: str
    stack: str
    what: str
    source: str
    settings: str
    predicts: str
    verdict: Word
    reason: str
    seeds: int
    failed: str
    measured: Sequence[Measured]
    to_target: Comparison | None
    equal_work: Comparison | None
    page: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSet:
    """All cards of a folder; ``tests`` counts the questions that the verdicts are adjusted for."""

    schema: int = 1
    folder: str
    command: Sequence[str]
    base: str
    seeds: int
    target: str | None
    metric: str | None
    hardware: str
    torch: str
    python: str
    tests: int
    tolerance_percent: float
    cards: Sequence[Card]
    remarks: Sequence[str]

    def to_dict(self) -> dict[str, JsonValue]:
        """The JSON of ``probe card``."""
        return to_dict(self)
