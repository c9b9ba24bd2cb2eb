"""What the report of a group holds: several trainings that one command started.

A meter is the group's; a training has the energy of its own time, unless another used the device
at the same time. Then the joules are ``shared``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model import SCHEMA_VERSION
from .model import (
    AbsentMeter,
    CarbonIntensity,
    EnergyPrice,
    GapCounts,
    JsonValue,
    NodeRow,
    Overhead,
    RecorderUse,
    Rendered,
    Report,
    SourceRow,
    Totals,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """One training of the group; ``begin_s`` is after the group's begin."""

    number: int
    id: str
    name: str
    process: str | None
    command: tuple[str, ...]
    status: str
    ended_by: str
    exit_code: int | None
    begin_s: float
    duration_s: float
    ranks: int
    steps: int
    energy_j: float | None
    modelled_energy_j: float | None
    shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOutside:
    """Time and energy of the group in which no training ran."""

    energy_j: float | None
    modelled_energy_j: float | None
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTime:
    """Time and energy in which several trainings used a device at the same time."""

    energy_j: float | None
    modelled_energy_j: float | None
    trainings: tuple[int, ...]
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """The group as a whole; ``steps`` are those of all members."""

    id: str
    name: str
    status: str
    ended_by: str
    exit_code: int | None
    started: str
    ended: str
    duration_s: float
    host: str
    directory: str
    scheduler: Mapping[str, str] | None = None
    steps: int
    members: tuple[MemberRow, ...]
    total: Totals
    shared: SharedTime
    rest: TimeOutside
    sources: tuple[SourceRow, ...]
    nodes: tuple[NodeRow, ...] = ()
    overhead: Overhead
    recorder: RecorderUse | None
    machine: Mapping[str, JsonValue]
    carbon: CarbonIntensity | None
    cost: EnergyPrice | None
    absent: tuple[AbsentMeter, ...]
    gaps: GapCounts
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupReport(Rendered):
    """The report of several trainings below one ``probe run``: the group, and one of each.

    It is shown and exported as a :class:`Report` is. Energy of a meter that several trainings
    used at once is ``shared`` and belongs to none of them. ``final`` is False while it goes on.
    """

    group: GroupInfo
    runs: tuple[Report, ...]
    final: bool = True
    schema: int = field(default=SCHEMA_VERSION)
