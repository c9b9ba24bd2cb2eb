"""What the pages show: plain data, so that a test can write down what a chart is drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from probe.model import DeviceKind, device_kind
from probe.report.model import (
    AttemptRow,
    CommunicationRow,
    HostRow,
    JsonValue,
    RankBalance,
    RankRow,
)

Floats = npt.NDArray[np.float64]
Fragment = Mapping[str, JsonValue]
"""A part of a figure as plotly's JSON: a trace, an axis, an annotation."""
Cell = str | float | None
"""Of a table; an int is a count, a bool becomes yes or nothing."""
MEASURED, MODELLED, ESTIMATED = "measured", "modelled", "estimated"


@dataclass(frozen=True, slots=True)
class Power:
    """Power of devices in common bins.

    ``edges_s`` (bins + 1) are seconds since the run's begin. The matrices are devices × bins, NaN
    without a reading; ``low_w`` and ``high_w`` are the least and the most within a bin.
    ``newest_s`` is the time of the last reading.
    """

    edges_s: Floats
    devices: Sequence[str]
    provenance: Sequence[str]
    mean_w: Floats
    low_w: Floats
    high_w: Floats
    cap_w: Sequence[float | None]
    newest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Level:
    """A gauge over time, thinned for a chart."""

    device: str
    quantity: str
    unit: str
    time_s: Floats
    value: Floats
    limit: float | None = None
    device_kind: str = ""

    @property
    def is_accelerator(self) -> bool:
        """True for GPUs and their like."""
        return device_kind(self.device, self.device_kind) is DeviceKind.ACCELERATOR


@dataclass(frozen=True, slots=True)
class Lane:
    """Phases of one rank on one clock, back to back."""

    name: str
    begin_s: Floats
    end_s: Floats
    phase: Sequence[str]


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Some steps: lanes, when they closed, and power beside them if anything was read."""

    first_step: int
    steps_s: Floats
    lanes: Sequence[Lane]
    power: Power | None


@dataclass(frozen=True, slots=True)
class Drift:
    """Energy (J) or time (s) per step over blocks of steps, and where it changed for good."""

    steps: Floats  # middle of each block
    value: Floats
    low: Floats
    high: Floats
    unit: str
    block: int  # steps in one
    changes: Sequence[int]  # places in ``steps`` before which a new level begins
    provenance: str


@dataclass(frozen=True, slots=True)
class LoggedSeries:
    """A logged value, thinned for a chart, and its running mean over ``window`` values.

    ``over``: what ``x`` counts (steps, samples, tokens, s of time, J of energy), one of ``axes``.
    ``count`` values were logged, ``not_finite`` of them no numbers. ``provenance`` is that of x.
    """

    name: str
    over: str
    axes: Sequence[str]
    x: Floats
    value: Floats
    smooth: Floats
    window: int
    count: int
    not_finite: int
    provenance: str


@dataclass(frozen=True, slots=True)
class PhasePower:
    """Power of all metered devices together, split by phase, in bins.

    ``edges_s`` (bins + 1) are seconds since the run's begin; ``watts`` is phases × bins, NaN
    without a reading. ``places``: at how many places phases were looked up; None: everywhere.
    """

    edges_s: Floats
    phases: Sequence[str]
    watts: Floats
    devices: int
    places: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """What a run was started with; ``code`` is the state of its git checkout."""

    command: Sequence[str]
    directory: str
    config: Mapping[str, JsonValue]
    code: Mapping[str, str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JobView:
    """The ranks of a job; ``steps`` and ``energy_j`` of a live one are not known yet."""

    live: bool
    ranks: Sequence[RankRow] = ()
    hosts: Sequence[HostRow] = ()
    communication: Sequence[CommunicationRow] = ()
    attempts: Sequence[AttemptRow] = ()
    balance: RankBalance | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """Of a table: a key for machines, a heading for people."""

    key: str
    label: str


class LazyRows(Sequence[Sequence[Cell]]):
    """Rows of a table, made when they are asked for; a zoom asks for the figure only."""

    def __init__(self, make: Callable[[], Sequence[Sequence[Cell]]]) -> None:
        self._make = make
        self._made: Sequence[Sequence[Cell]] | None = None

    def _rows(self) -> Sequence[Sequence[Cell]]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._rows())

    def __getitem__(self, place: Any) -> Any:
        return self._rows()[place]


class Figure(TypedDict):
    """A figure as plotly's JSON; its layout has the ``height`` in pixels."""

    data: list[Fragment]
    layout: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure (plotly's JSON), what it says in words, and the figures behind it.

    ``figure`` None: there is nothing to draw, and ``caption`` says why.
    """

    caption: str
    figure: Figure | None
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Cell]] = ()
