"""The quantities of the objective: their names, units, how they are asked for and written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import UsageError
from ...report.numbers import data_size, duration, energy, interval, number
from ..gain import Interval
from ..progress import judged_by
from .model import Limit

_TIME = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_BYTES = {
    "B": 1.0,
    **{f"{prefix}B": 1e3 ** (i + 1) for i, prefix in enumerate(("k", "M", "G", "T"))},
    **{f"{prefix}iB": 2.0 ** (10 * (i + 1)) for i, prefix in enumerate(("K", "M", "G", "T"))},
}
_JOULES = {"mJ": 1e-3, "J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "kWh": 3.6e6}
GRADIENT_NORM, GRADIENT_VARIANCE = "gradient_norm", "gradient_variance"


def _size(amount: float) -> str:
    return data_size(amount).replace("\u00a0", " ")  # a terminal breaks no cell


@dataclass(frozen=True, slots=True)
class Quantity:
    """One that has a unit; ``units`` by name in the base unit, intervals are ``shown`` in some."""

    label: str
    symbol: str
    unit: str
    units: Mapping[str, float]
    shown: Sequence[str]
    written: Callable[[float], str]


COSTS: Mapping[str, Quantity] = {
    "time": Quantity("time", "T", "s", _TIME, ("µs", "ms", "s"), duration),
    "memory": Quantity("peak memory", "M", "B", _BYTES, ("B", "KiB", "MiB", "GiB"), _size),
    "energy": Quantity("energy", "E", "J", _JOULES, ("J", "kJ", "kWh"), energy),
    "time_per_sample": Quantity("time per sample", "T/S", "s", _TIME, ("µs", "ms", "s"), duration),
    "energy_per_sample": Quantity(
        "energy per sample", "E/S", "J", _JOULES, ("J", "kJ", "kWh"), energy
    ),
}
"""What can be weighed: less of it is better."""
PAPER = ("time", "memory", "energy")
"""The three terms of the paper's equation (1)."""
METERED = ("energy", "energy_per_sample")
_AMOUNT = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([^\W\d]*)")
_LABELS = {GRADIENT_NORM: "‖∇L‖", GRADIENT_VARIANCE: "σ²"}


def label(quantity: str) -> str:
    """What people call it."""
    cost = COSTS.get(quantity)
    return cost.label if cost is not None else _LABELS.get(quantity, quantity)


def unit(quantity: str) -> str:
    """The unit of its values; empty for a metric."""
    cost = COSTS.get(quantity)
    return "" if cost is None else cost.unit


def written(quantity: str, value: float | None) -> str:
    """A value with its unit; "—" for None."""
    if value is None:
        return "—"
    cost = COSTS.get(quantity)
    sign = "−" if value < 0 else ""
    return sign + (number(abs(value)) if cost is None else cost.written(abs(value)))


def written_interval(quantity: str, limits: Interval | None) -> str:
    """Both ends with as many digits as the width deserves, and one unit; "" for None."""
    if limits is None:
        return ""
    cost = COSTS.get(quantity)
    if cost is None:
        return interval(*limits)
    largest = max(map(abs, limits))
    # The shown units, the largest that is not more than the value.
    fitting = [name for name in cost.shown if cost.units[name] <= largest]
    name = max(fitting, key=cost.units.__getitem__, default=cost.shown[0])
    low, high = (end / cost.units[name] for end in limits)
    return f"{interval(low, high)} {name}"


def said(limit: Limit) -> str:
    """A constraint in symbols: ``peak memory ≤ 6 GiB``."""
    sign = "≤" if limit.upper else "≥"
    return f"{label(limit.quantity)} {sign} {written(limit.quantity, limit.value)}"


def weights_of(text: str) -> dict[str, float]:
    """Parse ``time=1,memory=0.5``. Raises UsageError."""
    weights: dict[str, float] = {}
    for part in _parts(text):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in COSTS:
            raise UsageError(f"no weight for {name!r}: choose from {', '.join(COSTS)}")
        if name in weights:
            raise UsageError(f"{name} has two weights: give it one")
        weight = _finite(value)
        if weight is None or weight < 0:
            raise UsageError(
                f"{value!r} is no weight for {name}: write a number that is not negative, "
                f"like {name}=1"
            )
        weights[name] = weight
    if not any(weights.values()):
        raise UsageError("all weights are 0: give one quantity a weight, like time=1")
    return weights


def limit_of(text: str, *, upper: bool) -> Limit:
    """Parse ``memory=6GiB`` or ``loss=2.5``. Raises UsageError."""
    option = "--max" if upper else "--min"
    name, equals, value = (word.strip() for word in text.partition("="))
    if not name or not equals or not value:
        raise UsageError(f"{option} {text!r}: write a name and a value, like loss=2.5")
    match = _AMOUNT.fullmatch(value)
    digits, given = (match[1], match[2]) if match else ("", value)
    cost = COSTS.get(name)
    size = _finite(value if cost is None else digits)
    if cost is None:
        if size is None:
            raise UsageError(f"{option} {text}: {name} has no unit: write a number")
        return Limit(name, "at most" if upper else "at least", size)
    if given not in cost.units:
        what = f"{given!r} is no unit of {name}" if given else f"{name} needs a unit"
        raise UsageError(f"{option} {text}: {what}: choose from {', '.join(cost.units)}")
    if size is None or size < 0:
        raise UsageError(f"{option} {text}: write a number that is not negative, and a unit")
    return Limit(name, "at most" if upper else "at least", size * cost.units[given])


def front_of(text: str) -> list[str]:
    """Parse ``time,energy``: the quantities of a Pareto front. Raises UsageError."""
    names = list(dict.fromkeys(_parts(text)))
    for name in names:
        if higher_is_better(name) is None:
            raise UsageError(
                f"whether more or less {name} is better is not known, so no front is of it: "
                f"choose from {', '.join(COSTS)}, or a metric like loss or accuracy"
            )
    return names


def higher_is_better(quantity: str) -> bool | None:
    """Of a cost or a metric that has a usual name; None for other metrics."""
    if quantity in COSTS or quantity in _LABELS:
        return False
    judged = judged_by({quantity: (np.zeros(1, np.int64), np.ones(1))})
    return None if judged is None else judged[1]


def _parts(text: str) -> Sequence[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
