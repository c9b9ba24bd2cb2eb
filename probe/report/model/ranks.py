"""What a job of several ranks adds: ranks, hosts, attempts, and what ranks wait for."""

from __future__ import annotations

from dataclasses import dataclass

from .values import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """One rank, and the energy of the devices that only it uses."""

    rank: int
    """Number of the rank."""
    host: str
    """Host that it ran on."""
    devices: tuple[str, ...]
    """Devices with a meter that only this rank uses."""
    steps: int
    """Steps that it took."""
    energy_j: float | None
    """Energy of these devices; null without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationRow:
    """Time per step that a rank spent on other ranks; null where that was not recorded."""

    rank: int
    """Number of the rank."""
    host: str
    """Host that it ran on."""
    blocking_s: float | None
    """Time in collectives that Python waits for."""
    busy_s: float | None
    """Time in which collectives ran, by DDP's timers, whatever else went on."""
    exposed_s: float | None
    """Time that backward waits for collectives after the last gradient is computed."""
    cost_s: float | None
    """How much longer a backward takes that reduces gradients than a backward of the same step
    under ``no_sync``."""
    cost_s_interval: Interval | None
    """Interval of ``cost_s``."""
    contention_s: float | None
    """Part of ``cost_s`` that is not exposed: traffic slows computing."""
    steps: int
    """Steps that the means of DDP's reductions are taken over; 0 if there were none."""
    method: str
    """How these times were measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRow:
    """A host's clock against the job's."""

    offset_s: float
    """What to add to the host's time to get the job's."""
    method: str
    """How the offset was measured: ``round trips``, ``wall clocks``, ``unknown``, or ``the job's
    own``."""
    bound_s: float | None
    """Largest error of the offset; null if the clocks were not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """A host of the job."""

    host: str
    """Name of the host."""
    status: str
    """How the run on this host stands or ended, as ``run.status``."""
    ended_by: str
    """Why it ended, in words; empty if it finished or goes on."""
    ranks: tuple[int, ...]
    """Numbers of the ranks on this host."""
    begin_s: float
    """When recording began here, counted from the job's begin."""
    duration_s: float
    """Length of the run on this host."""
    energy_j: float | None
    """Measured energy; null without a meter."""
    modelled_energy_j: float | None
    """Energy that models compute; null without any."""
    clock: ClockRow
    """The host's clock against the job's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One start of the job's ranks; ``lost_*`` is what came after the last saved state."""

    attempt: int
    """Number of the attempt: 0 for the first."""
    host: str
    """Name of the host."""
    begin_s: float
    """When the attempt began, counted from the begin of the run."""
    end_s: float
    """When its last edge was recorded, counted from the begin of the run."""
    steps: int
    """Steps that it took."""
    energy_j: float | None
    """Energy from its begin to its end; null without a meter."""
    lost_s: float | None
    """Time after its last ``checkpoint``; null for the last attempt, or without a checkpoint."""
    lost_j: float | None
    """Energy used in ``lost_s``; null without that or a meter."""
    ended_by: str
    """Why it ended, in words; empty for the last attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewRow:
    """Time between the first and the last rank's arrival, over steps."""

    median: float
    """Median, in seconds."""
    p95: float
    """95th percentile, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """How long a rank waits for the others."""

    rank: int
    """Number of the rank."""
    waiting_s: float
    """Mean time per step from its arrival until the last rank has come."""
    last_share: float
    """Share of the steps in which it comes last, 0 to 1."""
    waiting_j: float | None = None
    """Energy of its devices while it waited in all its steps, at their mean power; null if it has
    no devices of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBalance:
    """Which rank waits for which, where all of them meet in each step."""

    steps: int
    """Number of steps that were looked at."""
    step_s: float
    """Median time from step to step."""
    skew_s: SkewRow
    """Time between the first and the last rank's arrival."""
    bound_s: float
    """Largest error of these times between hosts; 0 on a single host."""
    ranks: tuple[WaitingRow, ...]
    """How long each rank waits."""
    slowest: int | None
    """Rank that comes last more often than by chance, and late enough to matter; null if there is
    none."""
    method: str
    """What counts as a rank's arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRow:
    """How long a rank of a pipeline waits for its neighbours, as means over steps."""

    rank: int
    """Number of the rank."""
    step_s: float
    """Time of a step."""
    waiting_s: float
    """Time per step that it waits for its neighbours: ``bubble_s`` + ``transfer_s``."""
    bubble_s: float
    """Part of the wait that stays if transfers take no time."""
    transfer_s: float
    """Part of the wait that is due to transfers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineWaiting:
    """What ranks of a pipeline wait for."""

    method: str
    """How waits were separated; without ranks, why they were not."""
    ranks: tuple[PipelineRow, ...] = ()
    """How long each rank waits; empty if waits were not separated."""
