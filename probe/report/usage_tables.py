"""Tables of what the phases used besides energy: units of a GPU, CPU cores, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .all_devices import place
from .model import MemoryRow, RateRow, Report
from .numbers import data_size, plus_minus, share_with_error
from .sentences import memory_growth
from .text_tables import Table, unique

CPU_CORES = "cpu_time"  # the one rate that is no share
RATES = {
    "sm_activity": "SM",
    "tensor_activity": "tensor",
    "dram_activity": "DRAM",
    "kernel_time": "any kernel",
    "memory_time": "memory in use",
    "power_cap_time": "power capped",
}
_MEMORY = {"allocated": "allocated", "reserved": "reserved", "used": "in use (NVML)"}
_UNKNOWN = "—"
_WORTH_A_LINE = 4 << 20  # bytes over the run


def activity(report: Report, device: str | None = None) -> list[Table]:
    """How busy the phases kept a GPU, or all of them in the mean; none without such meters."""
    rows = [row for row in report.rates if device is None or row.device == device]
    names = [name for name in RATES if any(row.quantity == name for row in rows)]
    busy = [row for row in rows if row.quantity in names]
    body = _by_phase(
        unique(row.phase for row in busy),
        [_rate_column(busy, name, share_with_error) for name in names],
    )
    if not body:
        return []
    devices = unique(row.device for row in busy)
    of = devices[0] if len(devices) == 1 else f"the mean of {len(devices)} devices"
    return [
        Table(
            f"how busy, share of peak or of time: {of}",
            ["phase", *(RATES[name] for name in names)],
            body,
        )
    ]


def busy_devices(report: Report) -> list[str]:
    """The GPUs whose activity by phase was measured."""
    return unique(row.device for row in report.rates if row.quantity in RATES)


def processes(report: Report) -> list[Table]:
    """CPU cores at work and resident memory by phase: of the rank's process, or of all in the mean.

    The peak is the highest of any rank.
    """
    cores = [row for row in report.rates if row.quantity == CPU_CORES]
    resident = [row for row in report.memory if row.quantity == "resident"]
    body = _by_phase(
        unique([*(row.phase for row in resident), *(row.phase for row in cores)]),
        [
            _rate_column(cores, CPU_CORES, _cores),
            _memory_column(resident, "mean_bytes"),
            _memory_column(resident, "peak_bytes"),
        ],
    )
    if not body:
        return []
    ranks = max(len({row.rank for row in resident}), len({row.device for row in cores}))
    of = "the training's process" if ranks <= 1 else "the processes of all ranks, in the mean"
    return [Table(of, ["phase", "CPU cores", "memory", "memory peak"], body)]


def gpu_memory(report: Report) -> list[Table]:
    """What torch had allocated and reserved, and what the GPU had in use, by phase."""
    rows = [row for row in report.memory if row.quantity in _MEMORY]
    names = [name for name in _MEMORY if any(row.quantity == name for row in rows)]
    columns, head = [], ["phase"]
    for name in names:
        of_name = [row for row in rows if row.quantity == name]
        columns += [_memory_column(of_name, "mean_bytes"), _memory_column(of_name, "peak_bytes")]
        head += [_MEMORY[name], "peak"]
    body = _by_phase(unique(row.phase for row in rows), columns)
    if not body:
        return []
    ranks = {row.rank for row in rows}
    of = "GPU memory" if len(ranks) == 1 else f"GPU memory, the mean of {len(ranks)} ranks"
    return [Table(of, head, body)]


def growth(report: Report) -> list[str]:
    """A line for each level that changes from step to step by more than its error."""
    several = report.run.ranks > 1
    return [
        memory_growth(row, several=several)
        for row in report.memory_growth
        if row.bytes_per_step_interval[0] > 0
        and row.grown_bytes > _WORTH_A_LINE
        and not row.grows  # a leak is a note
    ]


_Column = Callable[[str], str]


def _by_phase(phases: Iterable[str], columns: Sequence[_Column]) -> list[list[str]]:
    """Rows of the phases that at least one column has a value for."""
    rows = [[phase, *(column(phase) for column in columns)] for phase in sorted(phases, key=place)]
    return [row for row in rows if any(cell != _UNKNOWN for cell in row[1:])]


def _rate_column(
    rows: Sequence[RateRow], quantity: str, shown: Callable[[float, float, float], str]
) -> _Column:
    """The mean over devices; its interval is the mean of theirs, for errors may be common."""

    def cell(phase: str) -> str:
        chosen = [row for row in rows if row.phase == phase and row.quantity == quantity]
        stated = [
            (row.value, row.interval)
            for row in chosen
            if row.value is not None and row.interval is not None
        ]
        if not stated or len(stated) < len(chosen):
            return _UNKNOWN
        value = sum(value for value, _ in stated) / len(stated)
        low = sum(interval[0] for _, interval in stated) / len(stated)
        high = sum(interval[1] for _, interval in stated) / len(stated)
        return shown(value, low, high)

    return cell


def _cores(value: float, low: float, high: float) -> str:
    return plus_minus(value, (high - low) / 2)


def _memory_column(rows: Sequence[MemoryRow], field: str) -> _Column:
    """The mean of all ranks, or the highest peak with what it may be at most."""

    def cell(phase: str) -> str:
        chosen = [row for row in rows if row.phase == phase]
        if not chosen:
            return _UNKNOWN
        if field == "mean_bytes":
            return data_size(sum(row.mean_bytes for row in chosen) / len(chosen))
        peak = max(row.peak_bytes for row in chosen)
        limits = [row.peak_at_most_bytes for row in chosen if row.peak_at_most_bytes is not None]
        limit = max(limits, default=peak)
        return data_size(peak) if limit <= peak else f"{data_size(peak)} … {data_size(limit)}"

    return cell
