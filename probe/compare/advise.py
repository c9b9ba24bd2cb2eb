"""What to try next on a run, and what it could gain at most, by joules.

A bound is all that the run spent on it: removing it altogether gains that much and no more. So an
upper end of an interval, or of hard bounds, is taken where a phase's energy is not
known exactly. Where nothing bounds a gain, none is stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..analysis.open import open_analyses
from ..model import SCHEMA_VERSION, Phase
from ..report.build.report import build

_HEADROOM = 1.3  # memory left over before a larger batch is worth a word
_CAPPED = 0.05  # share of the time under the power cap, likewise
_LEAST = 0.005  # of the run: less than that is not worth trying


@dataclass(frozen=True, slots=True)
class AdviceKind:
    """A thing to try: the phases that it would remove, and how."""

    what: str
    phases: tuple[str, ...]
    try_: str


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
    AdviceKind("saving", (Phase.CHECKPOINT,), "save less often, or beside the training"),
)
_REMOVABLE = AdviceKind(
    "recomputation", (Phase.RECOMPUTE,), "no activation checkpointing, or of fewer layers"
)
_PER_STEP = AdviceKind(
    "what every step costs",
    (Phase.OPTIMIZER, Phase.COMMUNICATION),
    "a larger batch: fewer steps for the same samples",
)


def advise(path: Path) -> dict[str, Any]:
    """What to try, most joules first; seconds where no energy was measured.

    Raises:
        StoreError: the run cannot be read.
    """
    report = build(path)
    return of_report(report, *_memory(path))


def of_report(
    report: Mapping[str, Any], peak_bytes: float | None = None, most_bytes: float | None = None
) -> dict[str, Any]:
    """Of the report's JSON; memory at its peak, and what the device has."""
    room = most_bytes / peak_bytes if peak_bytes and most_bytes else None
    measured = report["total"]["energy_j"]
    rows = [
        row for row in report["phases"] if (row["provenance"] == "modelled") == (measured is None)
    ]
    kinds = list(_KINDS)
    rests: dict[str, dict[str, Any]] = {}
    if room is not None and room >= _HEADROOM:
        for kind in (_REMOVABLE, _PER_STEP):
            kinds.append(kind)
            rests[kind.what] = {"peak_memory_bytes": peak_bytes, "memory_bytes": most_bytes}
    tips = [
        advice
        for kind in kinds
        if (advice := _of(kind, rows, report, rests.get(kind.what, {}))) is not None
    ]
    tips.sort(key=lambda a: (-(a["at_most_j"] or 0.0), -a["at_most_s"]))
    capped = _capped(report)
    return {
        "schema": SCHEMA_VERSION,
        "run": {key: report["run"][key] for key in ("id", "name")},
        "energy_j": measured,
        "duration_s": report["run"]["duration_s"],
        "ranked_by": "energy" if measured is not None else "time",
        "advice": [*tips, *([capped] if capped else [])],
    }


def _of(
    kind: AdviceKind,
    rows: Sequence[Mapping[str, Any]],
    report: Mapping[str, Any],
    rests: Mapping[str, Any],
) -> dict[str, Any] | None:
    spent = [row for row in rows if row["phase"] in kind.phases and row["time_s"] > 0]
    if not spent:
        return None
    # Devices run beside each other: the time that could be saved is that of the busiest.
    per_device: dict[str, float] = {}
    for row in spent:
        per_device[row["device"]] = per_device.get(row["device"], 0.0) + row["time_s"]
    seconds = max(per_device.values())
    measured = report["total"]["energy_j"]
    highest = [_highest(row) for row in spent] if measured is not None else []
    joules = (
        None
        if not highest or None in highest
        else math.fsum(value for value in highest if value is not None)
    )
    if joules is not None:
        joules = min(joules, measured)
    share = (
        joules / measured
        if joules is not None and measured
        else (seconds / report["run"]["duration_s"] if report["run"]["duration_s"] else 0.0)
    )
    if share < _LEAST:
        return None
    return {
        "what": kind.what,
        "try": kind.try_,
        "at_most_j": joules,
        "at_most_s": seconds,
        "share": share,
        "rests_on": [
            {
                "phase": row["phase"],
                "device": row["device"],
                "time_s": row["time_s"],
                "energy_j": row["energy_j"] if measured is not None else None,
                "interval_j": row["energy_j_interval"] or row["bounds_j"],
            }
            for row in spent
        ],
        **rests,
    }


def _highest(row: Mapping[str, Any]) -> float | None:
    limits = row["energy_j_interval"] or row["bounds_j"]
    return None if limits is None else float(limits[1])


def _capped(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """A power cap that is reached; what another one gains cannot be known from one run."""
    rows = [
        row
        for row in report.get("rates", [])
        if row["quantity"] == "power_cap_time" and row["value"] is not None
    ]
    seconds = math.fsum(row["time_s"] for row in rows)
    capped = math.fsum(row["value"] * row["time_s"] for row in rows)
    if not seconds or capped / seconds < _CAPPED:
        return None
    return {
        "what": "power cap",
        "at_most_j": None,
        "at_most_s": capped,
        "share": capped / seconds,
        "try": "train a while under a lower limit (nvidia-smi -pl) and under a higher one, and "
        "`probe compare` them: under a cap joules per sample often have a minimum",
        "rests_on": [
            {
                "phase": row["phase"],
                "device": row["device"],
                "time_s": row["time_s"],
                "capped": row["value"],
            }
            for row in rows
            if row["value"] > 0
        ],
    }


def _memory(path: Path) -> tuple[float | None, float | None]:
    """(peak of a GPU's memory, what it has), of the fullest one; None where there is no GPU."""
    held = [
        (meter.summary.highest, meter.source.limit)
        for analysis in open_analyses(path)
        for meter in analysis.meters
        if meter.source.quantity == "memory_used" and meter.source.limit and meter.summary.samples
    ]
    return max(held, key=lambda memory: memory[0] / memory[1]) if held else (None, None)
