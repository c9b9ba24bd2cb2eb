"""The phases of all devices together: one table for a run, however many devices it had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..model import Phase, Provenance, Status
from .model import Interval, PhaseRow, Report

SUMMED_THREADS = "threads, summed"  # ends what stands for a device in rows of their time
METERED, TIMED, MODELLED = "metered", "timed", "modelled"  # kinds of the rows of a device

_ORDER = (
    "startup",
    "data",
    "forward",
    "backward",
    "recompute",
    "communication",
    "optimizer",
    "inference",
    "eval",
    "checkpoint",
    "restart",
)
_LAST = (Phase.OTHER, Phase.RESTART, Phase.UNRESOLVED, Phase.UNATTRIBUTED)
_REST = (Phase.UNRESOLVED, Phase.UNATTRIBUTED)  # no phases: energy and time that belong to none
_CERTAINTY = (Status.RESOLVED, Status.WEAK, Status.NOT_IDENTIFIABLE)


@dataclass(frozen=True, slots=True)
class DevicePhases:
    """Phases of several devices of a kind as one.

    Attributes:
        kind: METERED, MODELLED, or TIMED (no energy at all).
        devices: whose rows they are.
        phases: times and counts are a device's mean, energies are sums. Intervals add up, because
            the errors of several meters may be common. What is refused on one device is refused
            for all together.
        energy_j: of all devices; None of TIMED.
    """

    kind: str
    devices: tuple[str, ...]
    phases: tuple[PhaseRow, ...]
    energy_j: float | None

    @property
    def named(self) -> tuple[PhaseRow, ...]:
        """The rows of phases, without what belongs to no phase."""
        return tuple(row for row in self.phases if row.phase not in _REST)

    @property
    def not_told_apart_share(self) -> float:
        """Share of the energy that belongs to phases which the meters cannot tell apart."""
        (share,) = [r.energy_share for r in self.phases if r.phase == Phase.UNRESOLVED] or [None]
        return share or 0.0


def place(phase: str) -> tuple[int, str]:
    """Key that sorts phases as they come in a training."""
    parent = phase.partition("/")[0]  # forward/attention stands with forward
    if parent in _ORDER:
        return _ORDER.index(parent), phase
    return (100 + _LAST.index(phase) if phase in _LAST else 50), phase


def _place_of(row: PhaseRow) -> tuple[int, str]:
    return place(row.phase)


def energy_of(row: PhaseRow) -> float:
    """Joules to sort by: what is not known is 0."""
    return row.energy_j or 0.0


def time_share_of(row: PhaseRow) -> float:
    """Share of time to sort by: what has none is 0."""
    return row.time_share or 0.0


def kind_of(rows: Sequence[PhaseRow]) -> str:
    """METERED, MODELLED or TIMED: what the rows of a device say."""
    if rows and all(row.is_modelled for row in rows):
        return MODELLED
    has_energy = any(row.energy_j is not None or row.bounds_j is not None for row in rows)
    return METERED if has_energy else TIMED


def by_device(rows: Sequence[PhaseRow]) -> dict[str, list[PhaseRow]]:
    """The rows of each device, sorted by :func:`place`."""
    devices: dict[str, list[PhaseRow]] = {}
    for row in rows:
        devices.setdefault(row.device, []).append(row)
    return {device: sorted(rows, key=_place_of) for device, rows in devices.items()}


def in_threads(report: Report) -> bool:
    """Whether threads that trained at the same time shared the devices."""
    return any(row.device.endswith(SUMMED_THREADS) for row in report.phases)


def all_devices(report: Report) -> list[DevicePhases]:
    """One entry per kind: the metered, the timed, the modelled; those with phases first."""
    kinds: dict[str, dict[str, list[PhaseRow]]] = {METERED: {}, TIMED: {}, MODELLED: {}}
    for device, rows in by_device(report.phases).items():
        kinds[kind_of(rows)][device] = rows
    tables = [_pooled(kind, devices) for kind, devices in kinds.items() if devices]
    return [t for t in tables if t.named] + [t for t in tables if not t.named]


def _pooled(kind: str, devices: dict[str, list[PhaseRow]]) -> DevicePhases:
    number = len(devices)
    rows = [row for rows in devices.values() for row in rows]
    name = next(iter(devices)) if number == 1 else f"all {number}"
    total_j = sum(row.energy_j or 0.0 for row in rows)
    total_s = sum(row.time_s for row in rows if row.phase != Phase.UNRESOLVED)
    groups = {
        phase: [row for row in rows if row.phase == phase]
        for phase in sorted({row.phase for row in rows}, key=place)
    }
    # A phase that is refused on one device has no sum: what others know of it is not told apart.
    refused = [rows for rows in groups.values() if any(row.energy_j is None for row in rows)]
    moved = [row for rows in refused for row in rows if row.energy_j is not None]
    if moved:
        groups.setdefault(str(Phase.UNRESOLVED), [])
    phases = []
    for phase, same in groups.items():
        more = moved if phase == Phase.UNRESOLVED else []
        phases.append(_sum(phase, name, [*same, *more], number, total_s, total_j))
    return DevicePhases(
        kind=kind,
        devices=tuple(devices),
        phases=tuple(sorted(phases, key=_place_of)),
        energy_j=None if kind == TIMED else total_j,
    )


def _sum(
    phase: str, device: str, rows: list[PhaseRow], devices: int, total_s: float, total_j: float
) -> PhaseRow:
    have_energy = all(row.energy_j is not None for row in rows)
    energy_j = sum(row.energy_j or 0.0 for row in rows) if have_energy else None
    seconds = sum(row.time_s for row in rows)
    interval = _added([row.energy_j_interval for row in rows]) if have_energy else None
    bounds = None if have_energy else _added([_limits(row) for row in rows])
    modelled = any(row.is_modelled for row in rows)
    timed = phase != Phase.UNRESOLVED and total_s > 0
    return PhaseRow(
        phase=phase,
        device=device,
        count=round(sum(row.count for row in rows) / devices),
        time_s=seconds / devices,
        energy_j=energy_j,
        energy_j_interval=interval,
        power_w=energy_j * devices / seconds if energy_j is not None and seconds > 0 else None,
        status=_CERTAINTY[max(_CERTAINTY.index(row.status) for row in rows)],
        bounds_j=bounds,
        provenance=Provenance.MODELLED if modelled else rows[0].provenance,
        time_share=seconds / total_s if timed else None,
        energy_share=energy_j / total_j if energy_j is not None and total_j else None,
    )


def _limits(row: PhaseRow) -> Interval | None:
    if row.energy_j is not None and row.energy_j_interval is None:
        return row.energy_j, row.energy_j
    return row.energy_j_interval or row.bounds_j


def _added(limits: Sequence[Interval | None]) -> Interval | None:
    bounded = [pair for pair in limits if pair is not None]
    if len(bounded) < len(limits):
        return None
    return sum(low for low, _ in bounded), sum(high for _, high in bounded)
