"""The report of a run: everything else in this package is a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...model import SCHEMA_VERSION
from .energy import CarbonIntensity, EnergyPrice, NodeRow, PowerRow, Totals
from .memory import MemoryGrowth, MemoryRow
from .meters import AbsentMeter, SourceRow
from .phases import GroupRow, PhaseRow, RateRow
from .ranks import AttemptRow, CommunicationRow, HostRow, PipelineWaiting, RankBalance, RankRow
from .rendered import Rendered
from .run import GapCounts, LoggedValue, Overhead, RecorderUse, RunInfo
from .values import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(Rendered):
    """All that is known of a run: ``print(report)`` shows it, ``report.to_json()`` gives all of it.

    Names end in units: ``_s`` seconds, ``_j`` joules, ``_w`` watts, ``_g`` grams, ``_bytes``. None
    means unknown, never zero; an interval is (low, high) of 95 %. While the run goes on, what needs
    the whole recording has its default: null, empty or 0. Frozen.
    """

    run: RunInfo
    """The run: its id, how it ended, its times, steps and settings."""
    total: Totals
    """Energy, CO2e and cost of the run."""
    sources: tuple[SourceRow, ...] = ()
    """The meters and models of the devices' energy."""
    nodes: tuple[NodeRow, ...] = ()
    """Energy of whole nodes that have a meter of their own; in no total."""
    phases: tuple[PhaseRow, ...] = ()
    """Time and energy of each phase on each device."""
    groups: tuple[GroupRow, ...] = ()
    """Phases whose energy is known only together."""
    ranks: tuple[RankRow, ...] = ()
    """The ranks and the energy of their own devices; empty for one rank, or while the run goes
    on."""
    communication: tuple[CommunicationRow, ...] = ()
    """What each rank spent on other ranks; empty where that was not recorded."""
    hosts: tuple[HostRow, ...] = ()
    """The hosts of a job on several hosts; else empty."""
    attempts: tuple[AttemptRow, ...] = ()
    """The starts of the job's ranks, if they were started more than once; else empty."""
    rates: tuple[RateRow, ...] = ()
    """How busy devices and the ranks' processes were in each phase."""
    memory: tuple[MemoryRow, ...] = ()
    """Memory that each rank held in each phase."""
    memory_growth: tuple[MemoryGrowth, ...] = ()
    """How memory grew over steps; empty with too few steps."""
    power: tuple[PowerRow, ...] = ()
    """Mean power over time, of each source in the total and each model; while the run goes on, of
    the last second."""
    overhead: Overhead
    """What recording costs the training process."""
    recorder: RecorderUse | None = None
    """The recorder process and what it used; null if unknown, or while the run goes on."""
    machine: Mapping[str, JsonValue] = field(default_factory=dict)
    """The machine: ``os``, ``cpu_model``, ``cpu_count``, ``memory_bytes``, ``driver`` and
    ``versions`` of packages; empty if unknown."""
    torch: str = "unknown"
    """Version of torch, else ``unknown``."""
    carbon: CarbonIntensity | None = None
    """Carbon intensity behind the CO2e; null without one."""
    cost: EnergyPrice | None = None
    """Price behind the costs; null without one."""
    absent: tuple[AbsentMeter, ...] = ()
    """Meters that could not be read."""
    gaps: GapCounts = field(default_factory=GapCounts)
    """How much is missing that should have been recorded."""
    values: Mapping[str, LoggedValue] = field(default_factory=dict)
    """What ``run.log`` recorded, by name; ``samples`` may be counted from the DataLoader."""
    warnings: tuple[str, ...] = ()
    """What a reader must know of the figures, one line each."""
    balance: RankBalance | None = None
    """Which rank waits for which; null if ranks do not all meet, took too few steps, or have no
    common clock, and for a part of a run."""
    pipeline: PipelineWaiting | None = None
    """What ranks of a pipeline wait for; null without a pipeline."""
    final: bool = True
    """``false`` while the run goes on."""
    schema: int = SCHEMA_VERSION
    """Version of this JSON."""
