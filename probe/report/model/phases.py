"""Time, energy and activity of each phase on each device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...model import Provenance, Status
from .values import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseActivity:
    """How busy a unit of a device was in a phase: see :class:`RateRow`."""

    value: float
    """Share from 0 to 1; of ``cpu_time`` the mean number of cores at work."""
    interval: Interval
    """Interval of ``value``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """Time and energy of a phase on a device; the rows of a device add up to its energy."""

    phase: str
    """Name of the phase."""
    device: str
    """Device of the meter; in rows of time alone ``host``, a rank such as ``rank3``, or the number
    of its threads."""
    count: int
    """How often the phase was entered; it says nothing of ``unattributed`` and ``unresolved``."""
    time_s: float
    """Time in the phase; of ``unresolved`` that of the refused phases; 0 where it is unknown while
    the run goes on."""
    energy_j: float | None
    """Energy of the phase; null where it is refused, or without a meter."""
    energy_j_interval: Interval | None
    """Interval of ``energy_j``; null for a model, or without ``energy_j``."""
    power_w: float | None
    """Mean power, ``energy_j`` divided by ``time_s``; null without either."""
    status: Status
    """How far the phase's own energy can be known."""
    bounds_j: Interval | None
    """Least and most that a refused energy can be; null if it is not refused or no bounds are
    known."""
    provenance: Provenance
    """Where the energy comes from; ``measured`` also where the row has time alone."""
    time_share: float | None = None
    """Share of the device's time, 0 to 1; null for ``unresolved``, whose time other rows have."""
    energy_share: float | None = None
    """Share of the device's energy, 0 to 1; null without ``energy_j``."""
    memory_peak_bytes: float | None = None
    """Peak memory in the phase: of a GPU what torch had allocated, else what was in use; of other
    devices, what the rank's process held. Null if not recorded."""
    memory_mean_bytes: float | None = None
    """Mean memory in the phase, of the same as ``memory_peak_bytes``."""
    activity: Mapping[str, PhaseActivity] = field(default_factory=dict)
    """Rates of the device in the phase, by quantity, and ``cpu_time`` of its rank's process."""

    @property
    def is_modelled(self) -> bool:
        """True if a model says its joules, no meter."""
        return self.provenance is Provenance.MODELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """Phases whose energy is known only together."""

    device: str
    """Name of the device."""
    phases: tuple[str, ...]
    """Names of the phases."""
    energy_j: float
    """Energy of all of them together."""
    energy_j_interval: Interval
    """Interval of ``energy_j``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """How busy a unit of a device was in a phase."""

    device: str
    """Name of the device; of ``cpu_time`` the rank, such as ``rank0``."""
    quantity: str
    """What is counted: ``sm_activity``, ``tensor_activity``, ``dram_activity``, ``kernel_time``,
    ``memory_time``, ``power_cap_time`` or ``cpu_time``."""
    source: str
    """Id of the source."""
    phase: str
    """Name of the phase."""
    time_s: float
    """Time in the phase."""
    value: float | None
    """Share of the unit's peak or of time, 0 to 1; of ``cpu_time`` the mean number of cores at
    work; null where it is refused."""
    interval: Interval | None
    """Interval of ``value``; null where it is refused."""
    status: Status
    """How far the value can be known."""
    provenance: Provenance
    """Where the value comes from."""
