"""Dated updates of a meter, and what finds them in its reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..arrays import ArrayTable, Bools, Floats

Row = tuple[float, float, float, float, float, bool]
"""One update: the fields of :class:`Updates` in their order."""


@dataclass(frozen=True, slots=True)
class Change:
    """The counter was seen to move: after ``low``, before ``high``."""

    low: float
    high: float
    read: float  # when the call that saw it began
    joules: float
    fresh: bool
    close: bool  # narrow enough to say something about the lattice

    @property
    def middle(self) -> float:
        """The instant in the middle between the two reads, in s."""
        return (self.low + self.high) / 2

    @property
    def width(self) -> float:
        """Seconds between them."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Updates(ArrayTable):
    """Instants at which a meter updated, in order; every array is (n,). Seconds and joules."""

    time_s: Floats
    joules: Floats  # the counter, from an arbitrary zero
    sigma_s: Floats  # standard error of ``time_s``
    slack_s: Floats  # half-width of the bracket in which the update certainly lies
    horizon_s: Floats  # an update is decided when the reads up to here are known
    fresh: Bools  # the energy since the update before is unknown (a reset, a gap)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Updates:
        """Updates from one tuple each, in the order of the fields."""
        table = np.array(rows, np.float64).reshape(-1, 6)
        time_s, joules, sigma_s, slack_s, horizon_s, fresh = table.T.copy()
        return cls(time_s, joules, sigma_s, slack_s, horizon_s, fresh > 0)


class UpdateFinder(Protocol):
    """Turns the reads of one meter into dated updates; ``exact`` if no time is inferred."""

    exact: bool

    @property
    def period_s(self) -> float:
        """Seconds from one update to the next; long while that is unknown."""

    @property
    def common_error_s(self) -> float:
        """Standard error in s that the times of all updates share; 0 as a rule."""

    @property
    def undated(self) -> bool:
        """True if no update can be dated: it moves about as often as it is read."""

    def feed(self, time_s: Floats, span_s: Floats, values: Floats, /) -> Updates:
        """Take reads in order, arrays (n,): when each returned, how long it took, its value.

        Returns the updates that are decided by now.
        """

    def interrupt(self) -> None:
        """Count nothing for what the meter does between the last read and the next."""

    def finish(self) -> Updates:
        """Return the updates that were held back."""
