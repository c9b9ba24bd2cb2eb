"""The file in which a recorder keeps what it summed up of its node, for the report.

One per node, written at the end of the run; used only if it covers everything that was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from ..attribution.meter.energy_curve import EnergyCurve
from ..attribution.meter.summary import MeterSummary
from ..attribution.time_split import TimeShare, TimeShares
from ..store import files
from ..store.layout import summary_path
from ..timeline.ddp_reductions import ReductionSums
from ..timeline.optimizer_steps import OptimizerSteps
from ..timeline.phase_levels import PhaseLevels
from ..timeline.phase_totals import PhaseTotals
from ..timeline.step_times import StepTimes, StepTimesFields

VERSION = 1


class LoggedSums(TypedDict):
    """What a rank logged under a name; None where a value is not finite."""

    count: int
    last: float | None
    sum: float | None


class MeterFields(TypedDict):
    """A meter's summary as it is stored; its knots and bounds stand in arrays.

    ``curve``: slack, period and resets. ``shares``: phase code, nanoseconds, joules.
    """

    source: str
    samples: int
    highest: float
    spread: float
    highest_w: float
    owner: int | None
    curve: NotRequired[tuple[float, float, int]]
    shares: NotRequired[list[tuple[int, int, float]]]


class TotalsFields(TypedDict):
    """The phase totals of a rank as they are stored: pairs of a phase's code and its figure."""

    rank: int
    steps: int
    inferred_s: NotRequired[float]
    step_times: NotRequired[StepTimesFields | None]
    optimizers: NotRequired[dict[str, int]]
    iterations: NotRequired[int]
    names: list[tuple[int, str]]
    seconds: list[tuple[int, float]]
    counts: list[tuple[int, int]]
    follows: list[tuple[int, int, int]]
    first_s: NotRequired[list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """What one node's recorder knew at the end."""

    meters: Mapping[str, MeterSummary]  # by source
    owners: Mapping[str, int]  # by source, the rank whose phases its shares are of
    followed: Sequence[str]  # sources that the estimator saw from begin to end, silent ones too
    phase_totals: Sequence[PhaseTotals]  # of its ranks, on the host's clock
    on_device: Sequence[PhaseTotals]  # of those of its ranks that recorded device times
    rings: Mapping[int, Sequence[str]]  # by rank, the names of its rings
    values: Mapping[int, Mapping[str, LoggedSums]]  # by rank, what it logged
    # By rank, what reducing gradients cost it, as :meth:`DdpReductions.state`.
    reductions: Mapping[int, ReductionSums] = field(default_factory=dict)
    memory: Sequence[PhaseLevels] = ()  # levels of memory by phase, of its ranks


def write_summary(run: Path, node: NodeSummary) -> None:
    """Write the summary of this node. Raises OSError."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    meters: list[MeterFields] = []
    for number, (id_, summary) in enumerate(node.meters.items()):
        curve, shares = summary.curve, summary.shares
        row: MeterFields = {
            "source": id_,
            "samples": summary.samples,
            "highest": summary.highest,
            "spread": summary.spread,
            "highest_w": summary.highest_w,
            "owner": node.owners.get(id_),
        }
        if curve is not None:
            arrays[f"time_{number}"], arrays[f"joules_{number}"] = curve.time_ns, curve.joules
            row["curve"] = (curve.slack_ns, curve.period_s, curve.resets)
        if shares is not None:
            arrays[f"powers_{number}"] = shares.powers_w
            arrays[f"bounds_{number}"] = np.array(
                [[share.low_j, share.high_j] for share in shares.of.values()]
            )
            row["shares"] = [
                (code, share.time_ns, share.energy_j) for code, share in shares.of.items()
            ]
        meters.append(row)
    about = {
        "version": VERSION,
        "meters": meters,
        "tallies": [_totals_row(phases) for phases in node.phase_totals],
        "on_device": [_totals_row(phases) for phases in node.on_device],
        "followed": list(node.followed),
        "rings": list(node.rings.items()),
        "values": [[rank, dict(named)] for rank, named in node.values.items()],
        "reductions": [[rank, dict(row)] for rank, row in node.reductions.items()],
        "memory": [levels.as_fields() for levels in node.memory],
    }
    files.write_arrays(summary_path(run), arrays | {"told": np.array(json.dumps(about))})


def read_summary(
    run: Path, node: str, damaged: Callable[[Path], None] = lambda _: None
) -> NodeSummary | None:
    """The summary of a node; None if there is none, or a damaged one, or one of another version.

    Args:
        damaged: hears of a file that is there and cannot be read.
    """
    path = summary_path(run, node)
    arrays = files.read_arrays(path)
    if arrays is None:
        if path.exists():
            damaged(path)
        return None
    try:
        about = json.loads(str(arrays["told"]))
        if about["version"] != VERSION:
            return None
        return NodeSummary(
            {
                entry["source"]: _summary(entry, number, arrays)
                for number, entry in enumerate(about["meters"])
            },
            {
                entry["source"]: entry["owner"]
                for entry in about["meters"]
                if entry["owner"] is not None
            },
            about["followed"],
            [_totals_of(row) for row in about["tallies"]],
            [_totals_of(row) for row in about["on_device"]],
            dict(about["rings"]),
            dict(about["values"]),
            dict(about.get("reductions") or ()),
            [PhaseLevels.of(row) for row in about.get("memory") or ()],
        )
    except (KeyError, TypeError, ValueError, IndexError):
        damaged(path)
        return None


def _summary(row: MeterFields, number: int, arrays: Mapping[str, npt.NDArray[Any]]) -> MeterSummary:
    curve = shares = None
    if "curve" in row:
        curve = EnergyCurve(arrays[f"time_{number}"], arrays[f"joules_{number}"], *row["curve"])
    if "shares" in row:
        bounds = arrays[f"bounds_{number}"]
        shares = TimeShares(
            arrays[f"powers_{number}"],
            {
                code: TimeShare(time_ns, energy_j, *bounds[place])
                for place, (code, time_ns, energy_j) in enumerate(row["shares"])
            },
        )
    return MeterSummary(
        row["samples"], row["highest"], row["spread"], curve, row["highest_w"], shares
    )


def _totals_row(phases: PhaseTotals) -> TotalsFields:
    return {
        "rank": phases.rank,
        "steps": phases.steps,
        "inferred_s": phases.inferred_s,
        "step_times": None if phases.step_times is None else phases.step_times.as_json(),
        "optimizers": dict(phases.optimizers.steps),
        "iterations": phases.optimizers.iterations,
        "names": list(phases.names.items()),
        "seconds": list(phases.seconds.items()),
        "counts": list(phases.counts.items()),
        "follows": [(*pair, number) for pair, number in phases.follows.items()],
        "first_s": list(phases.first_s.items()),
    }


def _totals_of(row: TotalsFields) -> PhaseTotals:
    times = row.get("step_times")  # older runs have none
    return PhaseTotals(
        row["rank"],
        dict(row["names"]),
        dict(row["seconds"]),
        dict(row["counts"]),
        {(a, b): number for a, b, number in row["follows"]},
        row["steps"],
        row.get("inferred_s", 0.0),
        None if times is None else StepTimes(**times),
        OptimizerSteps(row.get("optimizers", {}), row.get("iterations", 0)),
        first_s=dict(row.get("first_s", [])),
    )
