"""What to try next on a run, and what it could gain at most, by joules.

A bound is all that the run spent on it: removing it altogether gains that much and no more. So an
upper end of an interval, or of hard bounds, is taken where a phase's energy is not
known exactly. Where nothing bounds a gain, none is stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..analysis.open import open_analyses
from ..model import SCHEMA_VERSION, Phase
from ..report.build.report import build
from ..report.model import Interval, PhaseRow, Report
from ..report.numbers import duration
from .checkpoint_interval import USUAL_S, best_interval_s, between_failures_s, checkpoint_cost_s

_HEADROOM = 1.3  # memory left over before a larger batch is worth a word
_CAPPED = 0.05  # share of the time under the power cap, likewise
_LEAST = 0.005  # of the run: less than that is not worth trying


@dataclass(frozen=True, slots=True)
class AdviceKind:
    """A thing to try: the phases that it would remove, and how."""

    what: str
    phases: tuple[str, ...]
    try_: str


_SAVING = "saving"
_KINDS = (
    AdviceKind(
        "data wait",
        (Phase.DATA,),
        "more loader workers (num_workers), pin_memory, prefetching, decoding beforehand",
    ),
    AdviceKind(
        "exposed communication",
        (Phase.COMMUNICATION,),
        "accumulate with no_sync, larger buckets, compressed gradients, a faster link",
    ),
    AdviceKind(
        "idle in the loop",
        (Phase.OTHER,),
        "look at what lies between the phases: logging, .item(), copies; name it by run.phase()",
    ),
    AdviceKind(
        "evaluation", (Phase.EVAL,), "evaluate less often, on fewer samples, in half precision"
    ),
    AdviceKind(
        "start-up and compilers",
        (Phase.STARTUP, Phase.COMPILE),
        "longer runs, caches of compiled code, data that is prepared once",
    ),
    AdviceKind(_SAVING, (Phase.CHECKPOINT,), "save beside the training"),
)
_REMOVABLE = AdviceKind(
    "recomputation", (Phase.RECOMPUTE,), "no activation checkpointing, or of fewer layers"
)
_PER_STEP = AdviceKind(
    "what every step costs",
    (Phase.OPTIMIZER, Phase.COMMUNICATION),
    "a larger batch: fewer steps for the same samples",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A row of the report that a bound rests on; energy in J, ``capped`` a share of its time."""

    phase: str
    device: str
    time_s: float
    energy_j: float | None = None
    interval_j: Interval | None = None
    capped: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """A thing to try, and what it gains at most; None in J where nothing bounds it.

    ``share`` is of the run's energy, else of its time. Memory in bytes, where the tip needs room.
    """

    what: str
    try_: str
    at_most_j: float | None
    at_most_s: float
    share: float
    rests_on: tuple[Evidence, ...]
    peak_memory_bytes: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedRun:
    """Which run."""

    id: str
    name: str
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to try on a run, most joules first; seconds where no energy was measured."""

    schema: int = SCHEMA_VERSION
    run: AdvisedRun
    energy_j: float | None
    duration_s: float
    ranked_by: str
    advice: tuple[Tip, ...]


def advise(path: Path) -> Advice:
    """What to try next on a stored run.

    Raises:
        StoreError: the run cannot be read.
    """
    return of_report(build(path), *memory_of(path))


def of_report(
    report: Report, peak_bytes: float | None = None, most_bytes: float | None = None
) -> Advice:
    """What to try by a report; memory at its peak, and what the device has."""
    room = most_bytes / peak_bytes if peak_bytes and most_bytes else None
    measured = report.total.energy_j
    rows = [row for row in report.phases if row.is_modelled == (measured is None)]
    tips = [tip for kind in _KINDS if (tip := _of(kind, rows, report)) is not None]
    if room is not None and room >= _HEADROOM:
        tips += [
            replace(tip, peak_memory_bytes=peak_bytes, memory_bytes=most_bytes)
            for kind in (_REMOVABLE, _PER_STEP)
            if (tip := _of(kind, rows, report)) is not None
        ]
    tips = [_with_interval(tip, rows, report) if tip.what == _SAVING else tip for tip in tips]
    tips.sort(key=lambda tip: (-(tip.at_most_j or 0.0), -tip.at_most_s))
    capped = _capped(report)
    return Advice(
        run=AdvisedRun(id=report.run.id, name=report.run.name, simulated=report.run.simulated),
        energy_j=measured,
        duration_s=report.run.duration_s,
        ranked_by="energy" if measured is not None else "time",
        advice=(*tips, *([capped] if capped else [])),
    )


def _with_interval(tip: Tip, rows: Sequence[PhaseRow], report: Report) -> Tip:
    """The advice on saving, with the interval that loses least at the rate of failures."""
    cost_s = checkpoint_cost_s(rows)
    if cost_s is None:
        return tip
    failure_s = between_failures_s(report)
    every = duration(best_interval_s(cost_s, failure_s))
    rate = f"a failure every {duration(failure_s)}" if failure_s != USUAL_S else "a failure a day"
    return replace(
        tip,
        try_=f"one checkpoint takes {duration(cost_s)}: with {rate}, one every {every} loses least "
        f"(Young, Daly); or {tip.try_}",
    )


def _of(kind: AdviceKind, rows: Sequence[PhaseRow], report: Report) -> Tip | None:
    spent = [row for row in rows if row.phase in kind.phases and row.time_s > 0]
    if not spent:
        return None
    # Devices run beside each other: the time that could be saved is that of the busiest.
    per_device: dict[str, float] = {}
    for row in spent:
        per_device[row.device] = per_device.get(row.device, 0.0) + row.time_s
    seconds = max(per_device.values())
    measured = report.total.energy_j
    joules = None if measured is None else _at_most(spent, measured)
    if joules is not None and measured:
        share = joules / measured
    else:
        share = seconds / report.run.duration_s if report.run.duration_s else 0.0
    if share < _LEAST:
        return None
    return Tip(
        what=kind.what,
        try_=kind.try_,
        at_most_j=joules,
        at_most_s=seconds,
        share=share,
        rests_on=tuple(
            Evidence(
                phase=row.phase,
                device=row.device,
                time_s=row.time_s,
                energy_j=row.energy_j if measured is not None else None,
                interval_j=row.energy_j_interval or row.bounds_j,
            )
            for row in spent
        ),
    )


def _at_most(rows: Sequence[PhaseRow], measured_j: float) -> float | None:
    """Upper end of what the rows spent, in J; None if one of them is not bounded."""
    highest = []
    for row in rows:
        limits = row.energy_j_interval or row.bounds_j
        if limits is None:
            return None
        highest.append(limits[1])
    return min(math.fsum(highest), measured_j)


def _capped(report: Report) -> Tip | None:
    """A power cap that is reached; what another one gains cannot be known from one run."""
    rows = [
        (row, row.value)
        for row in report.rates
        if row.quantity == "power_cap_time" and row.value is not None
    ]
    seconds = math.fsum(row.time_s for row, _ in rows)
    capped = math.fsum(value * row.time_s for row, value in rows)
    if not seconds or capped / seconds < _CAPPED:
        return None
    return Tip(
        what="power cap",
        at_most_j=None,
        at_most_s=capped,
        share=capped / seconds,
        try_="train a while under a lower limit (nvidia-smi -pl) and under a higher one, and "
        "`probe compare` them: under a cap joules per sample often have a minimum",
        rests_on=tuple(
            Evidence(phase=row.phase, device=row.device, time_s=row.time_s, capped=value)
            for row, value in rows
            if value > 0
        ),
    )


def memory_of(path: Path) -> tuple[float | None, float | None]:
    """(peak of a GPU's memory, what it has), of the fullest one; None where there is no GPU."""
    held = [
        (meter.summary.highest, meter.source.limit)
        for analysis in open_analyses(path)
        for meter in analysis.meters
        if meter.source.quantity == "memory_used" and meter.source.limit and meter.summary.samples
    ]
    return max(held, key=lambda memory: memory[0] / memory[1]) if held else (None, None)
