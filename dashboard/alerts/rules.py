"""The rules that a user can write as words: ``no step for 10 min``, ``energy > 5 kWh``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from probe.errors import UsageError
from probe.report.numbers import duration, energy

from ..data.run import OpenRun

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_JOULES = {"J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "kWh": 3.6e6, "MWh": 3.6e9}
_NUMBER = r"(\d+(?:\.\d+)?)"
_STILL = re.compile(rf"no step for {_NUMBER} ?(s|min|h)")
_CAPPED = re.compile(rf"(?:under the )?cap > {_NUMBER} ?%")
_FINITE = re.compile(r"(\S{1,100}) not finite")
_ENERGY = re.compile(rf"energy > {_NUMBER} ?({'|'.join(_JOULES)})")
FORMS = "'no step for 10 min', 'cap > 50 %', 'loss not finite', 'energy > 5 kWh'"

# A sentence if the rule holds of a live run now, else None.
Holds = Callable[[OpenRun], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in the user's words, and what finds out whether it holds."""

    text: str
    holds: Holds


def rule(text: str) -> Rule:
    """A rule of its words. Raises UsageError: they are none."""
    words = " ".join(text.split())
    if match := _STILL.fullmatch(words):
        longest_s = float(match[1]) * _SECONDS[match[2]]
        return Rule(words, lambda run: _still(run, longest_s))
    if match := _CAPPED.fullmatch(words):
        most = float(match[1]) / 100
        return Rule(words, lambda run: _capped(run, most))
    if match := _ENERGY.fullmatch(words):
        limit_j = float(match[1]) * _JOULES[match[2]]
        return Rule(words, lambda run: _spent(run, limit_j))
    if match := _FINITE.fullmatch(words):
        name = match[1]
        return Rule(words, lambda run: _not_finite(run, name))
    raise UsageError(f"alert {text!r}: write one like {FORMS}")


def _still(run: OpenRun, longest_s: float) -> str | None:
    closed = run.step_times().read().time_ns
    last_s = 0.0 if not len(closed) else (int(closed[-1]) - run.reader.begin_ns) / 1e9
    quiet_s = run.duration_s - last_s
    if quiet_s <= longest_s:
        return None
    return f"no step for {duration(quiet_s)}" + ("" if len(closed) else ", and none before")


def _capped(run: OpenRun, most: float) -> str | None:
    rows = [
        (row.value, row.time_s)
        for row in run.report_now().rates
        if row.quantity == "power_cap_time" and row.value is not None and row.time_s
    ]
    seconds = math.fsum(time_s for _, time_s in rows)
    share = math.fsum(value * time_s for value, time_s in rows) / seconds if seconds else 0.0
    return f"under the power cap for {100 * share:.0f} % of the time" if share > most else None


def _spent(run: OpenRun, limit_j: float) -> str | None:
    joules = run.report_now().total.energy_j
    if joules is None or joules <= limit_j:
        return None
    return f"{energy(joules)} measured, more than {energy(limit_j)}"


def _not_finite(run: OpenRun, name: str) -> str | None:
    for rank in run.reader.ranks():
        values = run.logged_values(rank).get(name)
        if values is not None and len(values[1]) and not np.isfinite(values[1][-1]):
            return f"{name} is {values[1][-1]} on rank {rank}"
    return None
