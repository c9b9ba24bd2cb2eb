"""The paper's tables as types; field names are the keys of the JSON of ``probe tables``.

Numbers are in the ``unit`` beside them, which is the paper's own where it states the figure.
Changes are other minus base, relative ones in percent of the base; intervals are 95 %, and those in
percent end at −100.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...model import SCHEMA_VERSION
from ..gain import Interval, OpenInterval
from ..model import ComparedSide, TargetValue
from ..run_record import Setting

NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Stated:
    """A figure of the paper: its value, and its digits as the paper prints them."""

    value: float
    printed: str

    @classmethod
    def of(cls, printed: str) -> Stated:
        """From what the paper prints: ``"1,240"``, ``"−11.1"``."""
        return cls(float(printed.replace(",", "").replace("−", "-")), printed)


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """What the paper states of a row; None where it states nothing. ``of``: of what, if unlike."""

    base: Stated | None = None
    other: Stated | None = None
    change: Stated | None = None
    percent: Stated | None = None
    of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRow:
    """A figure of both sides and how it changed.

    ``ours`` stands for figures that are not there; ``no_interval`` says why there is none.
    """

    what: str
    unit: str = ""
    base: float | None = None
    other: float | None = None
    change: float | None = None
    interval_change: Interval | None = None
    percent: float | None = None
    interval_percent: Interval | None = None
    no_interval: str | None = None
    verdict: str | None = None
    ours: str | None = None
    paper: PaperFigures | None = None


class PeakMemoryRow(PaperRow):
    """The most that a rank held while modules of one kind ran, also what others hold."""

    __slots__ = ()


class KeptMemoryRow(PaperRow):
    """By how much one forward of a kind's module raised what the allocator holds."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """One figure that belongs to both sides together.

    ``ours`` stands for a value that is not there; an end of ``interval`` that is never reached is
    None; ``paper`` is as the paper prints it.
    """

    what: str
    unit: str = ""
    value: float | None = None
    interval: OpenInterval | None = None
    no_interval: str | None = None
    ours: str | None = None
    paper: str | None = None


@dataclass(frozen=True, slots=True)
class PaperStep:
    """A row of the paper's Table III: min, GB, % accuracy, % faster and % less memory.

    ``of``: with which setting.
    """

    name: str
    time: Stated
    memory: Stated
    quality: Stated
    faster: Stated | None = None
    less_memory: Stated | None = None
    of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentRow:
    """A step of a cumulative ablation: min, GB and quality, and what it saves over the baseline.

    ``faster``, ``less_memory`` and ``less_energy`` (measured only) are percent of the baseline's
    mean; ``ours`` stands for figures that are not there.
    """

    what: str
    time: float | None = None
    memory: float | None = None
    quality: float | None = None
    faster: float | None = None
    interval_faster: Interval | None = None
    less_memory: float | None = None
    interval_less_memory: Interval | None = None
    less_energy: float | None = None
    interval_less_energy: Interval | None = None
    verdict: str | None = None
    ours: str | None = None
    paper: PaperStep | None = None


@dataclass(frozen=True, slots=True)
class PaperTable:
    """Rows of one kind under a title.

    ``table`` is the paper's number, empty where it has none; ``of``: what its quality column is.
    """

    table: str
    title: str
    rows: Sequence[PaperRow] | Sequence[FigureRow] | Sequence[ComponentRow]
    of: str = ""


@dataclass(frozen=True, slots=True)
class BothSettings:
    """What the runs of each side were trained with."""

    base: Mapping[str, Setting]
    other: Mapping[str, Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTables:
    """All tables of one comparison; ``notes`` are what a reader of them must know."""

    base: ComparedSide
    other: ComparedSide
    mode: str
    target: TargetValue | None
    verdict: str
    reason: str
    hardware: str
    data: str
    settings: BothSettings
    tables: Sequence[PaperTable]
    notes: Sequence[str] = ()
    schema: int = field(default=SCHEMA_VERSION)
