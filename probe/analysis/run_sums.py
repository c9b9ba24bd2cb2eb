"""What listed runs emit and cost by the tariffs that are given, and their sums in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

import numpy as np

from ..report.numbers import energy, number
from ..store.catalogue import RunSummary
from ..store.catalogue.totals import Sum, Worth
from ..units import NS_PER_S
from .carbon_and_price import Tariff, Tariffs

SUM_HEAD = ("runs", "measured", "by models", "CO2e", "cost", "device-hours")


def worths(rows: Iterable[RunSummary], tariffs: Tariffs) -> dict[str, Worth]:
    """By run id, what a kWh emitted and cost, where PROBE_INTENSITY or PROBE_PRICE says so.

    Of a tariff that changes, its mean over the run, weighted by the run's power in a few bins.
    """
    if tariffs.intensity is None and tariffs.price is None:
        return {}
    return {
        row["id"]: Worth(_mean(tariffs.intensity, row), _mean(tariffs.price, row)) for row in rows
    }


def sum_cells(total: Sum, currency: str) -> list[str]:
    """The cells of :data:`SUM_HEAD`; what a model says stands in brackets, never added."""
    return [
        str(total.runs),
        energy(total.measured_j) if total.measured else "",
        f"({energy(total.modelled_j)})" if total.modelled else "",
        _both(_mass(total.co2e_g), _mass(total.modelled_co2e_g)),
        _both(_money(total.cost, currency), _money(total.modelled_cost, currency)),
        number(total.device_hours) if total.device_hours else "",
    ]


def sum_line(total: Sum, currency: str) -> list[str]:
    """The sum in words, part by part."""
    parts = [f"{total.runs} run" + ("" if total.runs == 1 else "s")]
    if total.measured:
        parts.append(f"{energy(total.measured_j)} measured")
    if total.modelled:
        parts.append(f"{energy(total.modelled_j)} by models")
    for value, modelled, what in (
        (_mass(total.co2e_g), _mass(total.modelled_co2e_g), " CO2e"),
        (_money(total.cost, currency), _money(total.modelled_cost, currency), ""),
    ):
        if value:
            parts.append(value + what)
        if modelled:
            parts.append(f"{modelled}{what} by models")
    if total.device_hours:
        parts.append(f"{number(total.device_hours)} device-hours")
    if total.unknown:
        parts.append(f"{total.unknown} without a known energy")
    if total.no_co2e:
        parts.append(f"CO2e of {total.no_co2e} not known")
    return parts


def _mass(grams: float) -> str:
    if not grams:
        return ""
    kilos, unit = (grams / 1e3, "kg") if grams >= 1e3 else (grams, "g")
    return f"{number(kilos)} {unit}"


def _money(value: float, currency: str) -> str:
    return f"{number(value)} {currency}".strip() if value else ""


def _both(measured: str, modelled: str) -> str:
    return " + ".join(text for text in (measured, f"({modelled})" if modelled else "") if text)


def _mean(tariff: Tariff | None, row: RunSummary) -> float | None:
    """The tariff's mean over a run; None where it does not cover it."""
    if tariff is None:
        return None
    if len(tariff.begin_ns) == 1 and math.isinf(tariff.end_ns):
        return float(tariff.value[0])
    try:
        begin_ns = datetime.fromisoformat(str(row["started"])).timestamp() * NS_PER_S
    except ValueError:
        return None
    end_ns = begin_ns + (row["duration_s"] or 0.0) * NS_PER_S
    if begin_ns < tariff.begin_ns[0] or end_ns > tariff.end_ns:
        return None
    watts = np.array((row["power"] or {}).get("power_w") or [1.0], float)
    if not np.isfinite(watts).all() or watts.sum() <= 0:
        watts = np.ones(1)
    edges = np.linspace(begin_ns, end_ns, len(watts) + 1)
    inside = tariff.begin_ns[(tariff.begin_ns > begin_ns) & (tariff.begin_ns < end_ns)]
    cuts = np.unique(np.concatenate([edges, inside.astype(float)]))
    if len(cuts) < 2:
        cuts = np.array([begin_ns, begin_ns + 1.0])
    middles = (cuts[:-1] + cuts[1:]) / 2
    bins = np.clip(np.searchsorted(edges, middles, "right") - 1, 0, len(watts) - 1)
    joules = np.diff(cuts) * watts[bins]
    values = tariff.value[np.searchsorted(tariff.begin_ns, middles, "right") - 1]
    return float(joules @ values / joules.sum())


def currency_of(tariffs: Tariffs) -> str:
    """The price's currency; "" where there is none."""
    return "" if tariffs.price is None else tariffs.price.unit
