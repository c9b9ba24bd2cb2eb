"""The keys of run.json, and what stands at each: of a run, of a guest host, of a training.

:func:`probe.store.files.read_run_file` and :func:`probe.store.files.read_fields` read them, nothing
else does. Any key may be missing: older versions knew fewer, and a run that was killed never got
those of its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, cast

if TYPE_CHECKING:
    from ..report.model import JsonValue


SCHEDULERS = ("slurm", "pbs", "lsf")
_LONGEST = 200  # characters of what a scheduler says


class AnchorFields(TypedDict):
    """The same instant on the host's monotonic clock and since 1970."""

    monotonic_ns: int
    wall_ns: int


class ClockFields(TypedDict):
    """What to add to this host's time for that of the host ``reference``, ± ``bound_ns``."""

    reference: str
    offset_ns: int
    bound_ns: int


class RecorderFields(TypedDict, total=False):
    """The recorder process, and what it has used so far."""

    pid: int
    start_ticks: int
    epoch: int
    cpu_s: float
    start_cpu_s: float
    wall_s: float


class CarbonFields(TypedDict, total=False):
    """Grams of CO2e per kWh, and who says so; ``country`` is ISO 3166 alpha-3."""

    g_per_kwh: float
    country: str | None
    label: str
    source: str


class PowerFields(TypedDict, total=False):
    """Mean power of a run in a few bins of equal length."""

    provenance: str
    power_w: Sequence[float]


class CodeFields(TypedDict):
    """Which code was run: the commit of its repository, and a hash of what was changed since."""

    commit: str
    branch: str
    changed_files: int | None
    diff_hash: str  # empty: nothing


class SchedulerFields(TypedDict, total=False):
    """The batch job that a run belongs to, as its scheduler's variables say.

    ``scheduler`` is slurm, pbs or lsf; ``partition`` is the queue of the other two.
    """

    scheduler: str
    job_id: str
    job_name: str
    account: str
    partition: str
    user: str
    array_job_id: str
    array_task_id: str
    step_id: str
    restarts: str


class HangFields(TypedDict):
    """Seconds without an edge that are a hang, and Python's number of the thread that trains."""

    after_s: float
    thread: int


class ProcessFields(TypedDict, total=False):
    """What a process that trains says of itself; most of it becomes the run's.

    ``torch_state``: seed, determinism and precision flags; ``environment``: variables that change
    what torch and CUDA do.

    ``settings`` is added to the run's ``config``: what was known only after it began.
    ``job`` is the id of the run of the job's first host. ``error`` is why it failed, in one line;
    ``left``: it left the watched block by itself; ``ended_by_parent``: its parent terminates it;
    ``beside_computing``: it waited for a collective or a transfer that was begun in a call before.
    """

    torch: str
    torch_state: Mapping[str, JsonValue]
    environment: Mapping[str, str]
    model_hash: str
    model_found: str
    warnings: Sequence[str]
    beside_computing: bool
    overhead: Mapping[str, JsonValue]
    roofline: Mapping[str, JsonValue] | None
    stack: str
    settings: Mapping[str, JsonValue]
    ended_by_parent: bool | None
    job: str
    clock: ClockFields
    met: bool
    left: bool
    error: str
    hang: HangFields


class StartFields(TypedDict, total=False):
    """What is known when a run, or a training below one, begins.

    ``simulated``: its card does not exist (`probe demo`).
    ``process`` is its name in multiprocessing, ``job_key`` that of the launcher of its ranks.
    """

    id: str
    name: str | None
    command: Sequence[str]
    share: str
    country: str | None
    config: Mapping[str, JsonValue] | None
    data: str
    target: str | None
    prometheus: str | None
    dashboard: int | None
    simulated: bool
    group: str
    process: str | None
    job_key: str | None
    scheduler: SchedulerFields | None


class RunFields(ProcessFields, StartFields, total=False):
    """All of run.json.

    ``recorded`` is False where the command had ended before anything was measured. ``total`` is as
    in the report, ``logged`` has sums by name, ``power`` a few bins for a list of runs.
    ``shared``: whether a training shares a meter; of a group, as ``rest``, what its report says.
    """

    schema: int
    status: str
    started: str
    anchor: AnchorFields
    begin_ns: int
    host: str
    boot_id: str
    pid_namespace: int
    python: str
    ranks: int
    steps: int
    edges: int
    edges_lost: int
    rings: Sequence[str]
    sources: int
    accelerators: int
    absent: Sequence[Mapping[str, JsonValue]]
    carbon: CarbonFields | None
    carbon_problem: str | None
    machine: Mapping[str, JsonValue]
    code: CodeFields | None
    packages: Mapping[str, str] | None
    alive_ns: int
    recorder: RecorderFields
    end_ns: int
    duration_s: float
    exit_code: int | None
    ended_by: str
    total: Mapping[str, JsonValue]
    logged: Mapping[str, JsonValue]
    power: PowerFields | None
    shared: bool | Mapping[str, JsonValue]
    rest: Mapping[str, JsonValue]
    trainings: int
    recorded: bool


def scheduler_of(fields: Mapping[str, object]) -> dict[str, str] | None:
    """The batch job of a run, by the names of :class:`SchedulerFields`.

    None without one, or where what is stored is none.
    """
    stored = fields.get("scheduler")
    if not isinstance(stored, Mapping) or stored.get("scheduler") not in SCHEDULERS:
        return None
    names = SchedulerFields.__annotations__
    texts = {name: stored[name] for name in names if isinstance(stored.get(name), str)}
    return {name: value[:_LONGEST] for name, value in texts.items()} if "job_id" in texts else None


def chosen(fields: RunFields, names: Iterable[str]) -> RunFields:
    """Those of the fields that have one of these names, in the order of the names."""
    stored = cast("Mapping[str, object]", fields)
    return cast("RunFields", {name: stored[name] for name in names if name in stored})
