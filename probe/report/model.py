"""What a report holds: one frozen type for finished runs, live runs and groups of runs.

Everything that a reader sees (text, html, md, pdf, csv, json, exporters, trackers, comparisons, the
dashboard) is made from a :class:`Report` or a :class:`GroupReport` and from nothing else. The JSON
of schema 1 has the same names: a field is a key, ``from_`` is ``from``. Names end in units:
``_s`` seconds, ``_j`` joules, ``_w`` watts, ``_g`` grams. None means unknown, never zero. An
interval is (low, high) of 95 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from typing_extensions import TypeAliasType

from ..model import SCHEMA_VERSION, Provenance, Status

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from .group_model import GroupReport

Interval = tuple[float, float]
JsonValue = TypeAliasType(
    "JsonValue", "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)


def _key(name: str) -> str:
    """The JSON key of a field; ``from_`` keeps clear of Python's keyword."""
    return name.strip("_")


class PrettyPrinter(Protocol):
    """What IPython gives to ``_repr_pretty_``."""

    def text(self, text: str) -> None:
        """Print it."""


class Rendered:
    """What a report of a run and one of a group can do: be shown, and be exported."""

    __slots__ = ()

    def render(self, format: str = "text") -> str | bytes:  # noqa: A002
        """In one of the installed formats; bytes of one that is not text.

        Raises:
            UsageError: no such format, or what it needs is not installed.
        """
        from .formats import render

        return render(cast("Report | GroupReport", self), format)

    def to_dict(self) -> dict[str, JsonValue]:
        """The report's JSON, schema 1, as dicts and lists."""
        from .serialization import to_dict

        return to_dict(cast("DataclassInstance", self))

    def to_json(self) -> str:
        """The report's JSON, schema 1, as text."""
        from .serialization import to_json

        return to_json(cast("DataclassInstance", self))

    def __str__(self) -> str:
        return str(self.render("text"))

    def __repr__(self) -> str:
        from .group_document import document_of

        shown = document_of(cast("Report | GroupReport", self))
        return f"<{type(self).__name__}: {shown.name}, {shown.state}>"

    def _repr_html_(self) -> str:
        """For notebooks: the answer, a table, a chart."""
        from .notebook import fragment

        return fragment(cast("Report | GroupReport", self))

    def _repr_pretty_(self, printer: PrettyPrinter, cycle: bool) -> None:
        """For IPython in a terminal: as ``print`` shows it."""
        printer.text(str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Which run it is, how it ended, and what it was.

    ``status`` is running, finished, failed, killed, lost, or unwatched if nothing was recorded.
    ``started`` and ``ended`` are ISO 8601. ``part_s`` are begin and end of the part that the report
    covers, in seconds of the run; None: all of it. ``step_s`` is the median time of a step,
    ``steps_left_out`` how many first steps it leaves out. ``iterations`` and ``optimizers`` (steps
    by optimizer) differ from ``steps`` where several optimizers take turns. ``note`` says in one
    line that nothing trained. ``group``, ``command`` and ``process`` are of a training in a group.
    ``scheduler`` is the batch job, as its variables say: ``scheduler`` (slurm, pbs, lsf) and
    ``job_id``, and what is known of ``job_name``, ``account``, ``partition``, ``user``,
    ``array_job_id``, ``array_task_id``, ``step_id`` and ``restarts``.
    ``simulated``: its card does not exist (`probe demo`), and no sum may count its joules.
    """

    id: str
    name: str
    status: str
    ended_by: str = ""
    exit_code: int | None = None
    started: str
    ended: str
    duration_s: float
    part_s: Interval | None = None
    host: str = ""
    python: str = ""
    ranks: int = 1
    steps: int = 0
    step_s: float | None = None
    step_s_quartiles: Interval | None = None
    steps_left_out: int = 0
    iterations: int = 0
    optimizers: Mapping[str, int] = field(default_factory=dict)
    config: Mapping[str, JsonValue] | None = None
    data: str = "unknown"
    directory: str = ""
    note: str = ""
    group: str | None = None
    command: tuple[str, ...] = ()
    process: str | None = None
    scheduler: Mapping[str, str] | None = None
    simulated: bool = False

    @property
    def title(self) -> str:
        """The name that the user gave it, else its id."""
        return self.name or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Energy of the run; measured and modelled joules are never added.

    ``energy_j`` sums the meters with ``in_total``; None without any. ``coverage`` is the share of
    the run that was metered. ``cost`` is in the currency of :class:`EnergyPrice`.
    """

    energy_j: float | None = None
    energy_j_interval: Interval | None = None
    co2e_g: float | None = None
    modelled_energy_j: float | None = None
    modelled_co2e_g: float | None = None
    coverage: float | None = None
    cost: float | None = None
    modelled_cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorResponse:
    """How a meter follows power, in s: ``kind`` in words, ``from_`` run or calibration."""

    kind: str
    delay_s: float
    tau_s: float
    window_s: float
    period_s: float
    wander_s: float
    from_: str

    __pydantic_config__: ClassVar[dict[str, Callable[[str], str]]] = {"alias_generator": _key}


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorFit:
    """Whether the readings are those of such a sensor: probability of a misfit as large.

    ``failed`` names the assumption that failed, ``remedy`` what to do; None if ``ok``.
    """

    ok: bool
    p: float
    failed: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystematicError:
    """How far all that a meter shows is off: a share of power, and watts at all powers."""

    gain: float
    offset_w: float
    from_: str

    __pydantic_config__: ClassVar[dict[str, Callable[[str], str]]] = {"alias_generator": _key}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """One meter: what it counted, how often it moved, how well it is understood.

    ``in_total``: it counts into the measured energy. ``shared``: other trainings used the device at
    the same time, so that its energy is the group's. ``device_kind`` where the name does not say.
    ``simulated``: the device does not exist.
    """

    source: str
    device: str
    uuid: str
    method: str
    provenance: Provenance
    in_total: bool
    energy_j: float | None
    gaps: int
    period_s: float | None
    note: str = ""
    model: str = ""
    systematic: SystematicError | None = None
    response: SensorResponse | None = None
    fit: SensorFit | None = None
    shared: bool = False
    device_kind: str = ""
    simulated: bool = False

    @property
    def is_modelled(self) -> bool:
        """True if a model says its power, no meter."""
        return self.provenance is Provenance.MODELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """Energy of a whole node by a meter of its own, beside that of its parts.

    It is in no total and in no phase. ``parts`` are the devices whose meters are in the total,
    ``parts_j`` their sum; ``rest_j`` is what the node used beyond them: fans, power supplies, the
    board, whatever has no meter. None without any part that is metered.
    """

    device: str
    source: str
    method: str
    energy_j: float
    energy_j_interval: Interval
    parts: tuple[str, ...]
    parts_j: float | None
    rest_j: float | None
    rest_j_interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseActivity:
    """How busy a unit of a device was in a phase: see :class:`RateRow`."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """Time and energy of a phase on a device; the rows of a device add up to its energy.

    ``energy_j`` is None where it is refused; then ``bounds_j`` says what it can be. ``power_w`` is
    the mean. ``device`` is a meter's device, ``host``, or ``rank3`` for time alone.
    ``energy_share`` and ``time_share`` are of this device. ``activity`` has the rates of the device
    in the phase by quantity, and ``cpu_time`` of its rank's process.
    """

    phase: str
    device: str
    count: int
    time_s: float
    energy_j: float | None
    energy_j_interval: Interval | None
    power_w: float | None
    status: Status
    bounds_j: Interval | None
    provenance: Provenance
    time_share: float | None = None
    energy_share: float | None = None
    memory_peak_bytes: float | None = None
    memory_mean_bytes: float | None = None
    activity: Mapping[str, PhaseActivity] = field(default_factory=dict)

    @property
    def is_modelled(self) -> bool:
        """True if a model says its joules, no meter."""
        return self.provenance is Provenance.MODELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """Phases whose energy is known only together."""

    device: str
    phases: tuple[str, ...]
    energy_j: float
    energy_j_interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """How busy a unit of a device was in a phase; None where that cannot be told apart.

    ``value`` is a share, 0 to 1, of the unit's peak or of time; of ``cpu_time``, the CPU time of a
    rank's process, it is the mean number of cores at work.
    """

    device: str
    quantity: str
    source: str
    phase: str
    time_s: float
    value: float | None
    interval: Interval | None
    status: Status
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """Bytes that a rank held in a phase: their mean, and their peak over the run.

    ``quantity`` is ``allocated`` or ``reserved`` (torch's allocator of the rank's GPU), ``used``
    (all of the GPU ``device``, by NVML) or ``resident`` (the rank's process, by the operating
    system); where it is no GPU's, ``device`` is ``rank0``.
    ``peak_bytes`` is the highest that was seen; where memory between two looks may have been
    higher and a limit is known, ``peak_at_most_bytes`` is that limit.
    """

    rank: int
    device: str
    quantity: str
    source: str
    phase: str
    mean_bytes: float
    peak_bytes: float
    peak_at_most_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrowth:
    """How much more a rank holds from step to step: the slope of the lowest level of each block.

    ``grows``: it rose steadily (Mann-Kendall test, p < 0.001) and by more than 1 % and 8 MiB. The
    first quarter of the run's steps is left out.
    """

    rank: int
    device: str
    quantity: str
    source: str
    steps: int
    bytes_per_step: float
    bytes_per_step_interval: Interval
    grown_bytes: float
    grows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRow:
    """Mean power of a device in bins of ``step_s``, from ``begin_s``; None in a silence."""

    device: str
    source: str
    provenance: Provenance
    begin_s: float
    step_s: float
    power_w: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """A rank: the devices that are its own and their energy; None if it shares them."""

    rank: int
    host: str
    devices: tuple[str, ...]
    steps: int
    energy_j: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationRow:
    """Seconds per step that a rank spent on other ranks; None where that was not recorded.

    ``blocking_s`` in collectives that are waited for, ``busy_s`` on the wire by DDP's timers,
    ``exposed_s`` after the last gradient, ``cost_s`` in all, ``contention_s`` of it because traffic
    slows computing.
    """

    rank: int
    host: str
    blocking_s: float | None
    busy_s: float | None
    exposed_s: float | None
    cost_s: float | None
    cost_s_interval: Interval | None
    contention_s: float | None
    steps: int
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRow:
    """A host's clock against the job's, in s; ``bound_s`` None: it was not compared."""

    offset_s: float
    method: str
    bound_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """A host of the job."""

    host: str
    status: str
    ended_by: str
    ranks: tuple[int, ...]
    begin_s: float
    duration_s: float
    energy_j: float | None
    modelled_energy_j: float | None
    clock: ClockRow


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One start of the job's ranks; ``lost_*`` is what came after the last saved state."""

    attempt: int
    host: str
    begin_s: float
    end_s: float
    steps: int
    energy_j: float | None
    lost_s: float | None
    lost_j: float | None
    ended_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewRow:
    """Seconds between the first and the last rank's arrival, over steps."""

    median: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """A rank's mean waiting per step, and in which share of the steps it comes last."""

    rank: int
    waiting_s: float
    last_share: float
    waiting_j: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBalance:
    """Which rank waits for which; ``slowest`` is None if no rank is late more often than chance."""

    steps: int
    step_s: float
    skew_s: SkewRow
    bound_s: float
    ranks: tuple[WaitingRow, ...]
    slowest: int | None
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRow:
    """A rank's mean waiting for its neighbours per step: ``bubble_s`` + ``transfer_s``."""

    rank: int
    step_s: float
    waiting_s: float
    bubble_s: float
    transfer_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineWaiting:
    """What ranks of a pipeline wait for; without ranks ``method`` says why it is not known."""

    method: str
    ranks: tuple[PipelineRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What recording costs the training process; None where fewer than two steps were recorded."""

    share_of_step: float | None
    method: str
    records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderUse:
    """The recorder process and what it used; ``start_cpu_s`` until it was ready."""

    pid: int
    start_ticks: int
    epoch: int
    cpu_s: float
    wall_s: float
    start_cpu_s: float | None = None  # runs of old do not tell it apart


@dataclass(frozen=True, slots=True, kw_only=True)
class CarbonIntensity:
    """Grams of CO2e per kWh, and who says so; ``country`` is ISO 3166 alpha-3."""

    g_per_kwh: float
    country: str | None
    label: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyPrice:
    """Price per kWh; ``currency`` may be empty."""

    per_kwh: float
    currency: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentMeter:
    """A meter that is not there, why, and what would bring it."""

    sensor: str
    what: str
    reason: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCounts:
    """What should have been recorded and was not: reads of all meters, edges of all rings."""

    count: int = 0
    edges_lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedValue:
    """What ``run.log`` recorded of one name; ``sum`` is None if it is not finite."""

    count: int
    last: float
    sum: float | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(Rendered):
    """All that is known of a run: ``print(report)`` shows it, ``report.to_json()`` gives all of it.

    ``total`` has the energy of the run, ``phases`` a row for each phase of each device, ``sources``
    the meters, ``warnings`` what a reader should know first. Names end in units: ``_s`` seconds,
    ``_j`` joules, ``_w`` watts, ``_g`` grams, ``_bytes``. None means unknown, never zero; an
    interval is (low, high) of 95 %. Frozen; ``final`` is False while the run goes on.
    """

    run: RunInfo
    total: Totals
    sources: tuple[SourceRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    phases: tuple[PhaseRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    ranks: tuple[RankRow, ...] = ()
    communication: tuple[CommunicationRow, ...] = ()
    hosts: tuple[HostRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    rates: tuple[RateRow, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    memory_growth: tuple[MemoryGrowth, ...] = ()
    power: tuple[PowerRow, ...] = ()
    overhead: Overhead
    recorder: RecorderUse | None = None
    machine: Mapping[str, JsonValue] = field(default_factory=dict)
    torch: str = "unknown"
    carbon: CarbonIntensity | None = None
    cost: EnergyPrice | None = None
    absent: tuple[AbsentMeter, ...] = ()
    gaps: GapCounts = field(default_factory=GapCounts)
    values: Mapping[str, LoggedValue] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    balance: RankBalance | None = None
    pipeline: PipelineWaiting | None = None
    final: bool = True
    schema: int = SCHEMA_VERSION
