"""Figures as people read them, back from text: "2.04 kJ", "62.3 ± 0.9 %", "1.2 … 1.4 kJ"."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {
    "kWh": 3.6e6,
    "kJ": 1e3,
    "J": 1.0,
    "mJ": 1e-3,
    "µJ": 1e-6,
    "W": 1.0,
    "%": 0.01,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "": 1.0,
}
_NUMBER = r"−?\d+(?:\.\d+)?"


@dataclass(frozen=True)
class Figure:
    """A number that was rounded: its value, and half of its last digit."""

    value: float
    error: float

    def agrees(self, exact: float) -> bool:
        """Whether rounding turns the exact value into this one."""
        return abs(self.value - exact) <= self.error * (1 + 1e-9) + 1e-12 * abs(exact)


def figure(text: str) -> Figure:
    """A number with its unit, or a time such as ``2 min 05 s``. Raises ValueError."""
    pairs = re.fullmatch(r"(\d+) (h|min) (\d+) (min|s)", text)
    if pairs:
        large, unit, small, small_unit = pairs.groups()
        value = int(large) * _UNITS[unit] + int(small) * _UNITS[small_unit]
        return Figure(value, _UNITS[small_unit])  # cut, not rounded
    match = re.fullmatch(rf"({_NUMBER})(?: (\S+))?", text)
    if not match:
        raise ValueError(f"{text!r} is no figure")
    digits, unit = match.groups(default="")
    return _rounded(digits, _UNITS[unit])


def between(text: str) -> tuple[Figure, Figure]:
    """``1.2 … 1.4 kJ``; both ends have the unit. Raises ValueError."""
    match = re.fullmatch(rf"({_NUMBER}) … ({_NUMBER}) (\S+)", text)
    if not match:
        raise ValueError(f"{text!r} is no interval")
    low, high, unit = match.groups()
    # One end may have more digits than the other has a use for: "0 … 1.3".
    error = max(_rounded(low, 1.0).error if low != "0" else 0.0, _rounded(high, 1.0).error)
    factor = _UNITS[unit]
    return Figure(float(low) * factor, error * factor), Figure(float(high) * factor, error * factor)


def _rounded(digits: str, factor: float) -> Figure:
    digits = digits.replace("−", "-")
    if "." in digits:
        last = 10.0 ** -len(digits.partition(".")[2])
    else:
        whole = digits.lstrip("-")
        last = 10.0 ** (len(whole) - len(whole.rstrip("0"))) if whole != "0" else 1.0
    return Figure(float(digits) * factor, last / 2 * factor)
