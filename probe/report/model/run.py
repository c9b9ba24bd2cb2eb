"""The run itself, and its recording: what that cost, and what it missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .values import Interval, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Which run it is, how it ended, and what it was."""

    id: str
    """Id of the run; of a training in a group, the group's id and the training's number."""
    name: str
    """Name that the user gave the run; empty without one."""
    status: str
    """How the run stands: ``running``, ``finished``, ``failed`` (an exception or exit code),
    ``killed`` (its process died), ``lost`` (its machine went away) or ``unwatched`` (nothing was
    recorded)."""
    ended_by: str = ""
    """Why the run ended, in words; empty if it finished or goes on."""
    exit_code: int | None = None
    """Exit code of the command or process; negative: the signal that ended it; null if unknown."""
    started: str
    """When the run began, ISO 8601."""
    ended: str
    """When the run, or the part that the report covers, ended, ISO 8601; of a live run: now."""
    duration_s: float
    """Length of the run, or of the part that the report covers."""
    part_s: Interval | None = None
    """Begin and end of the part that the report covers, in seconds of the run; null: all of it."""
    host: str = ""
    """Name of the host; of a job on several hosts, that of rank 0."""
    python: str = ""
    """Version of Python."""
    ranks: int = 1
    """Number of ranks."""
    steps: int = 0
    """Optimizer steps that were taken; where ranks differ, the most of any rank."""
    step_s: float | None = None
    """Median time from step to step; null with fewer than two steps, or while the run goes on."""
    step_s_quartiles: Interval | None = None
    """First and third quartile of the time from step to step."""
    steps_left_out: int = 0
    """Slow first steps that ``step_s`` and its quartiles leave out."""
    iterations: int = 0
    """Steps of the optimizer that stepped most, where several take turns; else as ``steps``. 0
    while the run goes on."""
    optimizers: Mapping[str, int] = field(default_factory=dict)
    """Steps by optimizer, where several take turns; else empty."""
    config: Mapping[str, JsonValue] | None = None
    """Settings of the training: what ``watch(config=...)`` was given and what was added later; null
    without any."""
    data: str = "unknown"
    """Name of the data set that ``watch(data=...)`` was given; ``unknown`` without one, or while
    the run goes on."""
    directory: str = ""
    """Path of the run's directory."""
    note: str = ""
    """One line if no training was seen in the command; else empty."""
    group: str | None = None
    """Id of the group that the training belongs to; null outside a group."""
    command: tuple[str, ...] = ()
    """Command line of the training; empty outside a group."""
    process: str | None = None
    """Name of the training's process in multiprocessing; null without one, or outside a group."""
    scheduler: Mapping[str, str] | None = None
    """Batch job: ``scheduler`` (slurm, pbs, lsf), ``job_id``, and where set ``job_name``,
    ``account``, ``partition``, ``user``, ``array_job_id``, ``array_task_id``, ``step_id``,
    ``restarts``; null without one."""
    simulated: bool = False
    """Whether its card does not exist (``probe demo``); then no sum may count its joules."""

    @property
    def title(self) -> str:
        """The name that the user gave it, else its id."""
        return self.name or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What recording costs the training process: an estimate made inside it."""

    share_of_step: float | None
    """Share of a step that recording takes, 0 to 1; null where fewer than two steps were
    recorded."""
    method: str
    """How the share was estimated."""
    records: int | None = None
    """Records that the training process made; null if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderUse:
    """The recorder process, and the processor time that it used."""

    pid: int
    """Process id."""
    start_ticks: int
    """When the process started, in clock ticks since the machine booted."""
    epoch: int
    """1 for the first recorder of the run, and one more after each restart."""
    cpu_s: float
    """CPU time that it used in all."""
    wall_s: float
    """Time since it was ready."""
    start_cpu_s: float | None = None
    """CPU time that it used until it was ready; null in older runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCounts:
    """What should have been recorded and was not."""

    count: int = 0
    """Missed reads of all meters, lost edges of all rings, and other gaps such as a restart of the
    recorder."""
    edges_lost: int = 0
    """Edges of phases and steps that are missing because a ring was full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedValue:
    """What ``run.log`` recorded under one name."""

    count: int
    """Number of values."""
    last: float
    """Last value."""
    sum: float | None
    """Sum of the values; null if it is not finite."""
