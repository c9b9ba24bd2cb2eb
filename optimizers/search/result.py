"""The result of a search. Fields are named as the keys of the JSON of ``probe search``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from probe.compare.gain import Interval
from probe.report.model import JsonValue
from probe.report.serialization import to_dict


@dataclass(frozen=True, slots=True)
class Spent:
    """What trainings took: ``joules`` None where nothing measured them."""

    trainings: int
    seconds: float
    joules: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """A configuration: its trainings without those of the proof, and the mean of the objective.

    ``failed``: trainings that did not reach the target; ``why`` says what one of them said.
    """

    settings: Mapping[str, str | None]
    trainings: int
    failed: int
    value: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What was found. ``value`` and ``gain`` are of the objective, per training to the target.

    ``verdict``: pays, costs or no evidence; ``champion`` is None if nothing was better than the
    script's own setting. ``words`` is the champion's command with ``{seed}``. ``pays_back`` says
    after how many trainings the search is paid back, with its 95 % interval, whose upper end is
    None if it may never be; both None without a gain. ``by_state`` counts the search's trials.
    """

    schema: int = 1
    objective: str
    target: str
    budget_s: float | None
    budget_j: float | None
    verdict: str
    reason: str
    champion: Mapping[str, str | None] | None
    words: Sequence[str]
    environment: Mapping[str, str]
    pairs: int
    default_value: float | None
    champion_value: float | None
    gain: float | None
    interval: Interval | None
    percent: float | None
    search: Spent
    proof: Spent
    pays_back: int | None
    pays_back_interval: tuple[int, int | None] | None
    by_state: Mapping[str, int]
    configurations: Sequence[Row]
    runs: Mapping[str, Sequence[str]]
    notes: Sequence[str] = ()
    folder: str = ""

    def to_dict(self) -> dict[str, JsonValue]:
        """The JSON of ``probe search``."""
        return to_dict(self)
