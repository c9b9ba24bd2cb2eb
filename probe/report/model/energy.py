"""Energy of the whole run: totals, the node's meter, power over time, CO2e and cost."""

from __future__ import annotations

from dataclasses import dataclass

from ...model import Provenance
from .values import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Energy of the run; measured and modelled joules are never added."""

    energy_j: float | None = None
    """Measured energy: the sum of the sources with ``in_total``; null without any."""
    energy_j_interval: Interval | None = None
    """Interval of ``energy_j``; null while the run goes on."""
    co2e_g: float | None = None
    """CO2e of ``energy_j``; null without that, or without a carbon intensity for all of the run."""
    modelled_energy_j: float | None = None
    """Energy that models compute where there is no meter; null without any model."""
    modelled_co2e_g: float | None = None
    """CO2e of ``modelled_energy_j``."""
    coverage: float | None = None
    """Share of the run in which meters were read: the smallest of all sources in the total; null
    without any, or while the run goes on."""
    cost: float | None = None
    """Cost of ``energy_j`` in the currency of the report's ``cost``; null without that, or without
    a price for all of the run."""
    modelled_cost: float | None = None
    """Cost of ``modelled_energy_j``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """Energy of a whole node by a meter of its own, beside that of its parts.

    It is in no total and in no phase.
    """

    device: str
    """Name of the node as a device."""
    source: str
    """Id of the node's meter."""
    method: str
    """How the meter is read."""
    energy_j: float
    """Energy of the node."""
    energy_j_interval: Interval
    """Interval of ``energy_j``."""
    parts: tuple[str, ...]
    """Devices of the node whose meters are in the total."""
    parts_j: float | None
    """Sum of the parts' energy; null without any part."""
    rest_j: float | None
    """Energy of what has no meter in the total (fans, power supplies, the board): ``energy_j`` less
    ``parts_j``; null without any part."""
    rest_j_interval: Interval | None
    """Interval of ``rest_j``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRow:
    """Mean power of a device over time, in bins of equal length."""

    device: str
    """Name of the device."""
    source: str
    """Id of the meter or model."""
    provenance: Provenance
    """Whether a meter read it or a model computed it."""
    begin_s: float
    """When the first bin begins, counted from the begin of the run or part."""
    step_s: float
    """Length of a bin."""
    power_w: tuple[float | None, ...]
    """Mean power in each bin; null where the meter was silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarbonIntensity:
    """Grams of CO2e per kWh, from which the report's CO2e was computed."""

    g_per_kwh: float
    """Grams of CO2e per kWh; of an intensity that changes, the mean over the run."""
    country: str | None
    """Country, ISO 3166 alpha-3; null for the world average, or where the user gave the
    intensity."""
    label: str
    """Country and year, or world average, in words; of the user's, the file's name, or ``given``
    for a number."""
    source: str
    """Who states the intensity; of the user's, as ``label``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyPrice:
    """Price of a kWh, from which the report's costs were computed."""

    per_kwh: float
    """Price per kWh; of a price that changes, the mean over the run."""
    currency: str
    """Currency, such as ``EUR``; empty if none was given."""
    label: str
    """Name of the user's file, or ``given`` for a number."""
