"""What runs come to: energy, CO2e, cost and device-hours, in all and by day, name, host and so on.

Measured and modelled joules are never added up: each has its own sum. A run that was measured
counts as measured; what a model says of its other devices is left out, as in the list of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...units import J_PER_KWH
from .rows import RunSummary

_S_PER_H = 3600.0


@dataclass(frozen=True, slots=True)
class Worth:
    """What a kilowatt-hour emits (g) and costs at the time of a run; None where it is not known."""

    g_per_kwh: float | None = None
    price_per_kwh: float | None = None


@dataclass(slots=True)
class Sum:
    """Of some runs. ``unknown`` counts those whose energy is not known.

    ``measured_j`` and ``modelled_j`` are J, ``co2e_g`` and ``modelled_co2e_g`` grams, ``cost`` and
    ``modelled_cost`` in the price's currency. ``no_co2e`` and ``no_cost`` count runs whose energy
    is known, but not what it emitted or cost.
    """

    runs: int = 0
    measured: int = 0
    modelled: int = 0
    unknown: int = 0
    measured_j: float = 0.0
    modelled_j: float = 0.0
    co2e_g: float = 0.0
    modelled_co2e_g: float = 0.0
    cost: float = 0.0
    modelled_cost: float = 0.0
    no_co2e: int = 0
    no_cost: int = 0
    device_hours: float = 0.0

    def add(self, row: RunSummary, worth: Worth | None = None) -> None:
        """Count one run more, its trainings within it."""
        self.runs += 1
        self.device_hours += device_hours(row) or 0.0
        joules, is_modelled = joules_of(row)
        if joules is None:
            self.unknown += 1
            return
        grams, cost = grams_of(row, worth), cost_of(row, worth)
        self.no_co2e += grams is None
        self.no_cost += cost is None
        if is_modelled:
            self.modelled += 1
            self.modelled_j += joules
            self.modelled_co2e_g += grams or 0.0
            self.modelled_cost += cost or 0.0
        else:
            self.measured += 1
            self.measured_j += joules
            self.co2e_g += grams or 0.0
            self.cost += cost or 0.0


def joules_of(row: RunSummary) -> tuple[float | None, bool]:
    """What a run used, J, and whether a model says so."""
    measured_j = row["energy_j"]
    return (row["modelled_energy_j"], True) if measured_j is None else (measured_j, False)


def grams_of(row: RunSummary, worth: Worth | None = None) -> float | None:
    """Its CO2e, g: by the intensity that was given, else as recorded, else by the country's."""
    joules, is_modelled = joules_of(row)
    if joules is None:
        return None
    given = None if worth is None else worth.g_per_kwh
    recorded = row["modelled_co2e_g"] if is_modelled else row["co2e_g"]
    if given is None and recorded is not None:
        return recorded
    intensity = row["g_per_kwh"] if given is None else given
    return None if intensity is None else joules / J_PER_KWH * intensity


def cost_of(row: RunSummary, worth: Worth | None) -> float | None:
    """What its energy cost at the price that was given."""
    joules, _ = joules_of(row)
    price = None if worth is None else worth.price_per_kwh
    return None if joules is None or price is None else joules / J_PER_KWH * price


def device_hours(row: RunSummary) -> float | None:
    """Hours of all its accelerators together; of its hosts, where it had none."""
    seconds, devices = row["duration_s"], row["devices"]
    return None if seconds is None or devices is None else seconds * devices / _S_PER_H


def _tags(row: RunSummary) -> list[str]:
    return row["tags"] or [""]


GROUPS: Mapping[str, Callable[[RunSummary], list[str]]] = {
    "day": lambda row: [(row["started"] or "")[:10]],
    "name": lambda row: [row["name"]],
    "tag": _tags,
    "host": lambda row: [row["host"]],
    "job": lambda row: [row["job"]],
    "account": lambda row: [row["account"]],
    "user": lambda row: [row["user"]],
}


def total(rows: Iterable[RunSummary], worths: Mapping[str, Worth] | None = None) -> Sum:
    """The sum of all rows.

    Args:
        rows: runs; the trainings of a group are in its own row.
        worths: by run id.
    """
    result = Sum()
    for row in rows:
        result.add(row, (worths or {}).get(row["id"]))
    return result


def totals_by(
    rows: Iterable[RunSummary], group: str, worths: Mapping[str, Worth] | None = None
) -> dict[str, Sum]:
    """Sums by day (newest first), or by what else :data:`GROUPS` has (most energy first).

    A run with several tags counts for each of them, so those sums may come to more than the total;
    "" holds the runs without.

    Raises:
        KeyError: ``group`` is none of :data:`GROUPS`.
    """
    keys_of, sums = GROUPS[group], dict[str, Sum]()
    for row in rows:
        for key in keys_of(row):
            sums.setdefault(key, Sum()).add(row, (worths or {}).get(row["id"]))
    if group == "day":
        return dict(sorted(sums.items(), reverse=True))
    return dict(
        sorted(sums.items(), key=lambda item: (-item[1].measured_j, -item[1].modelled_j, item[0]))
    )
