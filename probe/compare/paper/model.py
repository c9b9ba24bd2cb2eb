"""The paper's tables as types; field names are the keys of the JSON of ``probe tables``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...model import SCHEMA_VERSION
from ..gain import Interval, OpenInterval
from ..model import ComparedSide, TargetValue
from ..run_record import Setting


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A figure of both sides, beside the paper's.

    ``ours`` stands for figures that are not there; ``percent`` and ``interval_percent`` are of the
    change; ``interval`` is of ``other`` itself, None at an end that is never reached.
    """

    what: str
    base: float | None = None
    other: float | None = None
    unit: str = ""
    percent: float | None = None
    interval_percent: Interval | None = None
    paper: str | None = None
    ours: str | None = None
    verdict: str | None = None
    interval: OpenInterval | None = None


@dataclass(frozen=True, slots=True)
class PaperTable:
    """Rows under a title; ``table`` is the paper's number, empty where it has none."""

    table: str
    title: str
    rows: Sequence[PaperRow]


@dataclass(frozen=True, slots=True)
class BothSettings:
    """What the runs of each side were trained with."""

    base: Mapping[str, Setting]
    other: Mapping[str, Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTables:
    """All tables of one comparison."""

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
    schema: int = SCHEMA_VERSION
