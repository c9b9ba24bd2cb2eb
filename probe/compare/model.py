"""The result of a comparison, typed: what formats, dashboard and ablations read.

    ComparisonReport            the JSON of ``probe compare``
      base: ComparedSide
      comparisons: Comparison   one for every other side
        per_sample, phases      PhaseGain: what a sample costs, phase by phase
        time_s, energy_j, memory_bytes   Gain: the totals
        cells                   Cell: stage × class
        four, four_rest         shares of the gain by kind of phase

Fields are named as the keys of the JSON, which :mod:`serialization` makes of them; a field whose
key is a keyword of Python ends in an underscore (``class_``). What is not known is None. Positive
gains are saved; intervals are 95 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ..model import SCHEMA_VERSION, Provenance, Status
from .gain import EnergyGain, Gain, Interval, MemoryGain, Verdict

if TYPE_CHECKING:
    from ..report.model import JsonValue

FOUR_NAMES = {
    "early": "early training",
    "gradient": "gradient-heavy",
    "memory": "memory-bound",
    "communication": "communication",
    "rest": "the rest",
}
"""The kinds of phase by which a gain is divided: key of ``four`` → what people read."""


class Classified(StrEnum):
    """How the class of a phase was decided."""

    MEASURED = "measured"  # by the device's own DRAM and tensor activity
    COUNTED = "counted"  # by the operations and bytes of a step, against the device's roofline
    BY_PHASE = "by phase"  # by the name of the phase: memory-bound work is not separated


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds and joules; joules are None where they are not known."""

    time_s: float
    energy_j: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseGain:
    """What one phase costs per unit of work (sample, token, step) on both sides.

    ``verdict`` is on energy where it was measured, else on time. ``share`` is the phase's part of
    the gain per sample, None unless that is sure.
    """

    phase: str
    base: Spent
    other: Spent
    gain_j: float | None
    gain_j_interval: Interval | None
    gain_s: float
    gain_s_interval: Interval | None
    share: float | None
    verdict: Verdict
    time_verdict: Verdict
    status: Status
    provenance: Provenance | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What was saved in one stage by one class of work.

    ``verdict`` is on energy. ``refused`` are phases of this class whose energy cannot be told
    apart: their joules are in the class ``unidentified`` of the stage, with ``bounds_j``.
    """

    stage: str
    class_: str
    classified: Classified
    time_s: float
    time_s_interval: Interval | None
    time_verdict: Verdict
    energy_j: float | None = None
    energy_j_interval: Interval | None = None
    progress_j: float | None = None
    cost_j: float | None = None
    progress_j_interval: Interval | None = None
    cost_j_interval: Interval | None = None
    verdict: Verdict = Verdict.NO_EVIDENCE
    progress_verdict: Verdict = Verdict.NO_EVIDENCE
    cost_verdict: Verdict = Verdict.NO_EVIDENCE
    share: float | None = None
    share_interval: Interval | None = None
    phases: Sequence[str] = ()
    refused: Sequence[str] = ()
    bounds_j: Interval | None = None
    status: Status = Status.RESOLVED
    provenance: Provenance = Provenance.MEASURED


@dataclass(frozen=True, slots=True)
class Quality:
    """Mean final values of the metric, and whether the other side is good enough."""

    metric: str | None = None
    base: float | None = None
    other: float | None = None
    difference_percent: float | None = None
    ok: bool | None = None


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """Runs of one number of ranks; ``throughput`` in units of work per s over all ranks.

    ``efficiency`` is throughput per rank over that of the fewest ranks, ``communication`` the
    phase's share of time: None for one rank, and where it cannot be seen.
    """

    ranks: int
    runs: int
    unit: str
    throughput: float
    efficiency: float
    energy_per_sample_j: float | None
    communication: float | None


@dataclass(frozen=True, slots=True)
class EarlyMark:
    """What the early stage saves if it ended after another share of the base's samples."""

    share_of_samples: float
    of: str
    gain: float
    share: float | None


@dataclass(frozen=True, slots=True)
class MovedPhase:
    """A phase whose memory-bound part is another one in the other runs."""

    phase: str
    memory_bound_base: float
    memory_bound_other: float


@dataclass(frozen=True, slots=True)
class TechniqueRow:
    """A technique of the stack with its settings on both sides; None where it is not used."""

    technique: str
    base: str | None
    other: str | None


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """Runs of one kind: their common name and their ids."""

    name: str
    ids: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One other side against the base.

    ``per_sample`` is the sum of ``phases``; the joules of both are without the runs
    ``phases_without`` (ids), whose phases cannot be told apart. ``four`` has the shares of the
    gain by early, gradient, memory, communication and rest; memory is None where memory-bound
    work was not separated; ``four_rest`` divides the rest by class. ``four_of`` and
    ``verdict_by``: energy or time. ``techniques`` are those that differ. ``runs`` counts pairs,
    else the runs of the smaller side.
    """

    other: ComparedSide
    per_sample: PhaseGain
    phases: Sequence[PhaseGain]
    phases_without: Sequence[str]
    time_s: Gain
    energy_j: EnergyGain
    memory_bytes: MemoryGain
    quality: Quality
    cells: Sequence[Cell]
    four: Mapping[str, float | None] | None
    four_intervals: Mapping[str, Interval | None] | None
    four_rest: Mapping[str, float] | None
    four_of: str
    techniques: Sequence[TechniqueRow]
    scaling: Sequence[ScalingRow]
    early_at: Sequence[EarlyMark]
    moved: Sequence[MovedPhase]
    paired: bool
    runs: int
    comparable: bool
    differs: Sequence[str]
    verdict: Verdict
    verdict_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class TargetValue:
    """The quality up to which runs are compared."""

    metric: str
    direction: str
    value: float


@dataclass(frozen=True, slots=True)
class StageEnd:
    """Where the early stage ends: the quality that the base has after a share of its samples."""

    share_of_samples: float
    quality: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonReport:
    """All other sides against one base; ``unit`` is what work is counted in.

    ``classes`` has phase → class → share, decided on the base, ``classified`` phase → how.
    ``not_separated_because``: why a base run did not count its operations though it was asked to.
    """

    base: ComparedSide
    mode: str
    target: TargetValue | None
    unit: str
    classes: Mapping[str, Mapping[str, float]]
    classified: Mapping[str, Classified]
    memory_separated: bool
    not_separated_because: str | None
    comparisons: Sequence[Comparison]
    early_ends_at: Sequence[StageEnd] = ()
    tolerance_percent: float | None = None
    left_out: Sequence[str] = ()
    warnings: Sequence[str] = ()
    schema: int = field(default=SCHEMA_VERSION)

    def to_dict(self) -> dict[str, JsonValue]:
        """The JSON of ``probe compare``."""
        from ..report.serialization import to_dict

        return to_dict(self)
