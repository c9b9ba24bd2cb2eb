"""What one quantity of a comparison saves: in all, by fewer samples and by cheaper samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from ..model import Provenance

Interval = tuple[float, float]
OpenInterval = tuple[float | None, float | None]  # None: not bounded on that side


def closed(interval: OpenInterval | None) -> Interval | None:
    """An interval with two ends; None if one of them is open."""
    if interval is None or interval[0] is None or interval[1] is None:
        return None
    return interval[0], interval[1]


ALL = 100.0
"""The most that can be saved of a quantity, in percent of the base."""


def percent_of(base: float, interval: OpenInterval) -> OpenInterval:
    """Ends of a gain's interval in percent of the base, of which nothing saves more than all."""
    low, high = (None if end is None else 100 * end / base for end in interval)
    return low, None if high is None else min(high, ALL)


class Verdict(StrEnum):
    """Whether the other side saves anything, as far as the runs show."""

    GAIN = "gain"
    LOSS = "loss"
    NO_EVIDENCE = "no evidence"


@dataclass(frozen=True, slots=True)
class Bound:
    """A gain that is only bounded, because a run missed its target; ``is_``: at most, at least."""

    gain: float
    is_: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What the other side saves of one quantity over all of a run, in s, J or bytes.

    ``base`` and ``other`` are the means of both sides, for the same work; ``percent`` is the gain
    over ``base``. ``progress`` (fewer samples) and ``cost`` (cheaper samples) add up to ``gain``.
    """

    gain: float | None = None
    interval: OpenInterval | None = None
    percent: float | None = None
    progress: float | None = None
    cost: float | None = None
    verdict: Verdict = Verdict.NO_EVIDENCE
    progress_interval: Interval | None = None
    progress_verdict: Verdict = Verdict.NO_EVIDENCE
    cost_interval: Interval | None = None
    cost_verdict: Verdict = Verdict.NO_EVIDENCE
    base: float | None = None
    other: float | None = None
    bound: Bound | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyGain(Gain):
    """Joules, and how they came about; None if there was no meter and no model."""

    provenance: Provenance | None = None

    @classmethod
    def of(cls, gain: Gain, provenance: Provenance | None) -> EnergyGain:
        """A gain of joules that came about in this way."""
        return replace(_as(cls, gain), provenance=provenance)


@dataclass(frozen=True, slots=True)
class MemoryComponent:
    """Bytes of a part of the memory at the peak, means of both sides."""

    component: str
    base: float | None
    other: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGain(Gain):
    """Bytes at the peak, and what they consist of."""

    components: Sequence[MemoryComponent] = ()

    @classmethod
    def of(cls, gain: Gain, components: Sequence[MemoryComponent]) -> MemoryGain:
        """A gain of bytes at the peak, which consists of these parts."""
        return replace(_as(cls, gain), components=components)


_Kind = TypeVar("_Kind", bound=Gain)


def _as(kind: type[_Kind], gain: Gain) -> _Kind:
    """The same numbers in another class."""
    return kind(
        gain=gain.gain,
        interval=gain.interval,
        percent=gain.percent,
        progress=gain.progress,
        cost=gain.cost,
        verdict=gain.verdict,
        progress_interval=gain.progress_interval,
        progress_verdict=gain.progress_verdict,
        cost_interval=gain.cost_interval,
        cost_verdict=gain.cost_verdict,
        base=gain.base,
        other=gain.other,
        bound=gain.bound,
    )
