"""Weights and limits as they are written on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...errors import UsageError
from .scores import TERMS, Limit

_PAIR = re.compile(r"\s*([A-Za-z_][\w./-]*)\s*=\s*(\S+)\s*\Z")
_NUMBER = re.compile(r"([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*([A-Za-z]*)\Z")
_UNITS = {
    "time": {"": 1.0, "s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0},
    "memory": {
        "": 1.0,
        "B": 1.0,
        **{f"{p}iB": 2.0 ** (10 * k) for k, p in enumerate("KMGT", 1)},
        **{f"{p}B": 10.0 ** (3 * k) for k, p in enumerate("kMGT", 1)},
    },
    "energy": {"": 1.0, "J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "kWh": 3.6e6},
}


def weights(text: str) -> dict[str, float]:
    """``time=1,memory=0.5,energy=1``. Raises UsageError."""
    chosen: dict[str, float] = {}
    for part in text.split(","):
        name, value = _pair(part, "--weights time=1,memory=0.5,energy=1")
        if name not in TERMS:
            raise UsageError(f"--weights: {name!r} is none of {', '.join(TERMS)}")
        if (weight := _number(name, value, {"": 1.0})) < 0:
            raise UsageError(f"--weights: {name}={value} is negative")
        chosen[name] = weight
    return chosen


def limits(at_most: Iterable[str], at_least: Iterable[str]) -> list[Limit]:
    """``loss=2.5``, ``memory=6GiB``, ``time=2h``. Raises UsageError."""
    chosen = []
    for option, texts in (("--max", at_most), ("--min", at_least)):
        for text in texts:
            name, value = _pair(text, f"{option} loss=2.5 or {option} memory=6GiB")
            amount = _number(name, value, _UNITS.get(name, {"": 1.0}))
            chosen.append(Limit(name, amount, at_least=option == "--min"))
    return chosen


def _pair(text: str, example: str) -> tuple[str, str]:
    match = _PAIR.match(text)
    if match is None:
        raise UsageError(f"{text!r} is no NAME=VALUE: write {example}")
    return match[1], match[2]


def _number(name: str, text: str, units: dict[str, float]) -> float:
    match = _NUMBER.match(text)
    try:
        if match is None or match[2] not in units:
            raise ValueError
        return float(match[1]) * units[match[2]]
    except ValueError:
        known = ", ".join(filter(None, units)) or "no unit"
        raise UsageError(f"{name}={text}: write a number, with {known}") from None
