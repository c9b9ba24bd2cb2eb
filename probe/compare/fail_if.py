"""Limits on what a change may cost: ``--fail-if 'energy > +3 %'`` of ``probe compare``.

A limit is exceeded only if the whole 95 % interval of the rise lies above it, and kept only if the
whole interval lies at or below it. Everything between is no evidence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from ..errors import UsageError
from ..model import Provenance
from .gain import OpenInterval, percent_of
from .model import Comparison, PhaseGain

QUANTITIES = (
    "time",
    "energy",
    "memory",
    "time/sample",
    "energy/sample",
    "PHASE time",
    "PHASE energy",
)
_LIMIT = re.compile(r"(?P<quantity>[^<>=]+?)\s*(?P<sign>[<>]=?|=)\s*(?P<value>.+?)\s*")
_PERCENT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*%")


class Outcome(StrEnum):
    """What the runs show of a limit."""

    EXCEEDED = "exceeded"
    KEPT = "kept"
    NO_EVIDENCE = "no evidence"


@dataclass(frozen=True, slots=True)
class RiseLimit:
    """``quantity`` may not rise by more than ``percent`` of the base; ``text`` is as written."""

    text: str
    quantity: str
    percent: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """A limit held against one comparison; ``rise`` and ``interval`` in percent of the base."""

    limit: RiseLimit
    other: str
    outcome: Outcome
    rise: float | None
    interval: OpenInterval | None
    reason: str

    def line(self) -> str:
        """One line for people: what was asked, what came of it, by which figures."""
        figures = "" if self.rise is None else f": {self.rise:+.3g} %"
        if self.interval is not None:
            low, high = self.interval
            ends = ("-∞" if low is None else f"{low:+.3g}", "∞" if high is None else f"{high:+.3g}")
            figures += f", 95 % interval {ends[0]} … {ends[1]} %"
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.other}: {self.limit.text}: {self.outcome}{figures}{why}"


def limit_of(text: str) -> RiseLimit:
    """Parse ``energy > +3 %``. Raises UsageError."""
    option, example = f"--fail-if {text!r}", "write it like 'energy > +3 %'"
    match = _LIMIT.fullmatch(text.strip())
    if match is None or match["sign"] != ">":
        raise UsageError(f"{option}: {example}")
    percent = _PERCENT.fullmatch(match["value"])
    if percent is None:
        raise UsageError(f"{option}: {match['value']!r} is no percentage: {example}")
    quantity = " ".join(match["quantity"].split())
    if quantity not in QUANTITIES and quantity.rpartition(" ")[2] not in ("time", "energy"):
        raise UsageError(f"{option}: no quantity {quantity!r}: there are {', '.join(QUANTITIES)}")
    return RiseLimit(text.strip(), quantity, float(percent[1]))


def judged(limit: RiseLimit, comparison: Comparison) -> Judgement:
    """The limit held against a comparison. Raises UsageError if it has no such phase."""
    base, gain, interval = _figures(limit.quantity, comparison)
    rise: float | None = None
    ends: OpenInterval | None = None
    if base and gain is not None:
        rise = -100 * gain / base
        if interval is not None:
            low, high = percent_of(base, interval)
            ends = None if high is None else -high, None if low is None else -low
    outcome, reason = Outcome.NO_EVIDENCE, ""
    if not comparison.comparable:
        reason = comparison.reason
    elif rise is None:
        reason = f"{limit.quantity} is not known on both sides"
    elif _modelled(limit.quantity, comparison):
        reason = "modelled: no verdict"
    elif ends is None:
        reason = comparison.reason or "no interval"
    elif ends[0] is not None and ends[0] > limit.percent:
        outcome = Outcome.EXCEEDED
    elif ends[1] is not None and ends[1] <= limit.percent:
        outcome = Outcome.KEPT
    else:
        reason = "the interval is on both sides of the limit: more runs make it narrower"
    return Judgement(limit, comparison.other.name, outcome, rise, ends, reason)


def _figures(
    quantity: str, comparison: Comparison
) -> tuple[float | None, float | None, OpenInterval | None]:
    """(mean of the base, gain, its interval), each None if it is not known."""
    whole = {
        "time": comparison.time_s,
        "energy": comparison.energy_j,
        "memory": comparison.memory_bytes,
    }.get(quantity)
    if whole is not None:
        return whole.base, whole.gain, whole.interval
    if quantity.endswith("/sample"):
        return _of_phase(comparison.per_sample, quantity.removesuffix("/sample"))
    name, _, what = quantity.rpartition(" ")
    for phase in comparison.phases:
        if phase.phase == name:
            return _of_phase(phase, what)
    phases = ", ".join(phase.phase for phase in comparison.phases)
    raise UsageError(f"--fail-if {quantity}: no phase {name!r}: there are {phases}")


def _of_phase(
    phase: PhaseGain, what: str
) -> tuple[float | None, float | None, OpenInterval | None]:
    if what == "time":
        return phase.base.time_s, phase.gain_s, phase.gain_s_interval
    return phase.base.energy_j, phase.gain_j, phase.gain_j_interval


def _modelled(quantity: str, comparison: Comparison) -> bool:
    return "energy" in quantity and comparison.energy_j.provenance is Provenance.MODELLED
