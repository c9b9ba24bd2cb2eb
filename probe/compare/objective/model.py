"""The result of ``probe objective``, typed: fields are the keys of its JSON.

Values are in s, B and J, per sample where the name says so; intervals are 95 %. What is not known
is None, and ``reason`` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ...model import SCHEMA_VERSION
from ...report.model import JsonValue
from ...report.serialization import to_dict
from ..gain import Interval

METHOD = (
    "Student's t over repeated runs, 95 %; runs that share a seed are pairs; the interval of C "
    "holds the spread of the base as well"
)


class State(StrEnum):
    """Whether a configuration keeps a constraint."""

    MET = "met"
    NOT_MET = "not met"
    UNSAID = "cannot be said"


class Place(StrEnum):
    """Where a configuration lies against all others."""

    FRONT = "on the front"  # no other's means are as good in all quantities and better in one
    TIED = "tied"  # another's means are better, but not beyond the intervals
    DOMINATED = "dominated"  # another is better beyond the intervals
    EXCLUDED = "breaks a constraint"
    UNKNOWN = "not known"  # one of the quantities is not


@dataclass(frozen=True, slots=True)
class Term:
    """The mean of one quantity over the runs of a configuration.

    ``share`` is the quantity over the base's, ``weighted`` what it adds to C.
    """

    quantity: str
    unit: str
    value: float | None = None
    interval: Interval | None = None
    share: float | None = None
    weight: float = 0.0
    weighted: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """A constraint as it was asked for; ``is_``: "at most" or "at least"."""

    quantity: str
    is_: str
    value: float

    @property
    def upper(self) -> bool:
        """True if the quantity may not be more."""
        return self.is_ == "at most"


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a configuration makes of a limit: the mean, its interval, and what follows."""

    limit: Limit
    unit: str
    value: float | None
    interval: Interval | None
    state: State
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Repeated runs of one kind. ``beaten_by`` names those that dominate it, or that it ties with.

    ``modelled_energy_j`` is a model's and never part of C. ``saved`` is how much less C is than
    the base's, as a share.
    """

    name: str
    ids: Sequence[str]
    terms: Sequence[Term]
    modelled_energy_j: float | None
    score: float | None
    score_interval: Interval | None
    reason: str
    constraints: Sequence[Constraint]
    place: Place
    beaten_by: Sequence[str] = ()
    ties_with_lowest: bool = False

    @property
    def feasible(self) -> bool:
        """False if it surely breaks a constraint."""
        return all(each.state is not State.NOT_MET for each in self.constraints)

    def term(self, quantity: str) -> Term | None:
        """Its term of that name."""
        return next((term for term in self.terms if term.quantity == quantity), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveReport:
    """C = Σ weight · quantity / the base's, of every configuration, in the order they were named.

    ``front`` are the quantities that the Pareto front is of; ``lowest`` names the feasible
    configuration with the least C; ``work`` is what the quantities per sample count in.
    """

    base: str
    weights: Mapping[str, float]
    limits: Sequence[Limit]
    front: Sequence[str]
    target: str | None
    work: str
    configurations: Sequence[Configuration]
    lowest: str | None
    warnings: Sequence[str] = ()
    method: str = METHOD
    schema: int = field(default=SCHEMA_VERSION)

    def to_dict(self) -> dict[str, JsonValue]:
        """The JSON of ``probe objective``."""
        return to_dict(self)
