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
    """One training of the group."""

    number: int
    """Number of the training in the group, from 1."""
    id: str
    """Id of the training's run."""
    name: str
    """Name that the user gave it; empty without one."""
    process: str | None
    """Name of its process in multiprocessing; null without one."""
    command: tuple[str, ...]
    """Command line of its process."""
    status: str
    """How it stands or ended, as ``run.status``."""
    ended_by: str
    """Why it ended, in words; empty if it finished or goes on."""
    exit_code: int | None
    """Exit code of its process; negative: the signal that ended it; null if unknown."""
    begin_s: float
    """When it began, counted from the group's begin."""
    duration_s: float
    """Length of the training."""
    ranks: int
    """Number of its ranks."""
    steps: int
    """Steps that it took."""
    energy_j: float | None
    """Measured energy in its time, without shared meters; null without any other."""
    modelled_energy_j: float | None
    """Energy in its time by models, without shared devices; null without any other."""
    shared: bool
    """Whether it used a device that counts at the same time as another training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOutside:
    """Time and energy of the group that belong to no training."""

    energy_j: float | None
    """Measured energy of devices while no training used them; null without a meter."""
    modelled_energy_j: float | None
    """Energy of these times by models; null without any."""
    duration_s: float
    """Time in which no training ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTime:
    """Time and energy of trainings that used a device at the same time; it is in no training."""

    energy_j: float | None
    """Measured energy of shared devices in the time of the trainings that shared them; null
    without any."""
    modelled_energy_j: float | None
    """Energy of shared devices in that time by models; null without any."""
    trainings: tuple[int, ...]
    """Numbers of the trainings that shared a device."""
    duration_s: float
    """Time in which any of these trainings ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """The group as a whole."""

    id: str
    """Id of the group's run."""
    name: str
    """Name that the user gave it; empty without one."""
    status: str
    """How the group stands or ended, as ``run.status``."""
    ended_by: str
    """Why it ended, in words; empty if it finished or goes on."""
    exit_code: int | None
    """Exit code of the command; negative: the signal that ended it; null if unknown."""
    started: str
    """When it began, ISO 8601."""
    ended: str
    """When it ended, ISO 8601."""
    duration_s: float
    """Length of the group's run."""
    host: str
    """Name of the host."""
    directory: str
    """Path of the run's directory."""
    scheduler: Mapping[str, str] | None = None
    """Batch job, as ``run.scheduler``; null without one."""
    steps: int
    """Steps of all trainings."""
    members: tuple[MemberRow, ...]
    """The trainings."""
    total: Totals
    """Energy, CO2e and cost of the group."""
    shared: SharedTime
    """Time and energy of trainings that used a device at the same time."""
    rest: TimeOutside
    """Time and energy that belong to no training."""
    sources: tuple[SourceRow, ...]
    """The meters and models of the devices' energy."""
    nodes: tuple[NodeRow, ...] = ()
    """Energy of whole nodes that have a meter of their own; in no total."""
    overhead: Overhead
    """What recording costs a training process."""
    recorder: RecorderUse | None
    """The recorder process and what it used; null if unknown."""
    machine: Mapping[str, JsonValue]
    """The machine, as ``machine`` of a Report."""
    carbon: CarbonIntensity | None
    """Carbon intensity behind the CO2e; null without one."""
    cost: EnergyPrice | None
    """Price behind the costs; null without one."""
    absent: tuple[AbsentMeter, ...]
    """Meters that could not be read."""
    gaps: GapCounts
    """How much is missing that should have been recorded."""
    warnings: tuple[str, ...] = ()
    """What a reader must know of the figures, one line each."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupReport(Rendered):
    """The report of several trainings below one ``probe run``: the group, and one of each.

    It is shown and exported as a :class:`Report` is.
    """

    group: GroupInfo
    """What all trainings have in common, and their sums."""
    runs: tuple[Report, ...]
    """A report of each training."""
    final: bool = True
    """``false`` while the group goes on."""
    schema: int = field(default=SCHEMA_VERSION)
    """Version of this JSON."""
