"""The result of an ablation. Fields are named as the keys of the JSON of ``probe ablate``.

Positive gains are saved; intervals are 95 %; what is not known is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from probe.compare.gain import Interval, Verdict
from probe.compare.model import Comparison
from probe.report.model import JsonValue
from probe.report.serialization import to_dict

_OF_DESIGN = ("steps", "all", "left_out", "shapley")  # each design has its own part of these


@dataclass(frozen=True, slots=True)
class AddedStep:
    """A technique of a cumulative design: what it adds to those before it, and all so far."""

    technique: str
    step: Comparison
    in_all: Comparison


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a technique saves beside all others."""

    technique: str
    gain: Comparison


@dataclass(frozen=True, slots=True)
class CellName:
    """A stage of the training and a class of work."""

    stage: str
    class_: str


@dataclass(frozen=True, slots=True)
class CellGain:
    """What a technique saved in one cell, in s or J."""

    gain: float | None
    interval: Interval | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TechniqueGain:
    """What a technique saved in all, in s or J; ``cells`` add up to it."""

    technique: str
    gain: float
    interval: Interval | None
    verdict: Verdict
    cells: Sequence[CellGain]


@dataclass(frozen=True, slots=True)
class Interaction:
    """How much more two techniques save together than apart, in s or J."""

    techniques: Sequence[str]
    gain: float
    interval: Interval | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class GameValues:
    """Shapley values of one quantity."""

    techniques: Sequence[TechniqueGain]
    interactions: Sequence[Interaction]


@dataclass(frozen=True, slots=True)
class ShapleyRefused:
    """Why there are no Shapley values."""

    refused: str
    time_s: None = None
    energy_j: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapleyValues:
    """Each technique's mean over the orders; ``energy_j`` is None unless it was measured.

    ``exact``: over all orders, or those that pass through stacks which can run
    (``valid_orders_only``); else over ``orders`` that were drawn for each block.
    """

    exact: bool
    cells: Sequence[CellName]
    worse_in_quality: Sequence[str]
    refused: None = None
    orders: int
    valid_orders_only: bool
    time_s: GameValues
    energy_j: GameValues | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationResult:
    """What was found, by the design: ``steps``, or ``all_`` and ``left_out``, or ``shapley``.

    ``sound`` is False if doing nothing made a difference, None if that cannot be told.
    ``trials`` have ended, ``missing`` are still to be run.
    """

    schema: int = 1
    design: str
    techniques: Sequence[str]
    blocks: int
    mode: str
    no_op: Comparison
    sound: bool | None
    steps: Sequence[AddedStep] | None = None
    all_: Comparison | None = None
    left_out: Sequence[LeftOut] | None = None
    shapley: ShapleyValues | ShapleyRefused | None = None
    folder: str = ""
    command: Sequence[str] = ()
    trials: int = 0
    missing: int = 0

    def to_dict(self) -> dict[str, JsonValue]:
        """The JSON of ``probe ablate``; parts of other designs are left out."""
        return {
            key: value
            for key, value in to_dict(self).items()
            if key not in _OF_DESIGN or value is not None
        }
