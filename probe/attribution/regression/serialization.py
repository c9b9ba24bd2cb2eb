"""Statistics as plain arrays, to be sealed in the store and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from ...report.model import JsonValue
from ..columns import Columns
from ..response.nuisance import Tie
from ..response.response import Kind, Response
from .blocks import Blocks
from .lanes import Lane
from .statistics import OLDER_RECORDING, Statistics

VERSION = 3
OLDER = 2  # rows of one lag and offset each, with nothing that says what is unknown of them
Arrays = dict[str, npt.NDArray[Any]]


class ColumnFields(TypedDict):
    """The columns as they are stored: pairs of a phase's code and a column or a count."""

    first: list[tuple[int, int]]
    count_of: list[tuple[int, int]]
    slices_of: list[tuple[int, int]]
    width: int


class LaneFields(TypedDict):
    """What is stored of a lane beside its arrays."""

    mean_s: float
    variance_s2: float
    kind: str
    part_s: float
    tie: str
    gain: float
    extras: int


class OlderLaneFields(TypedDict):
    """The same in version 2."""

    offset_s: float
    tau_s: float
    gain: float
    disturb: bool


class Header(TypedDict):
    """All but the arrays; ``about`` is what the caller keeps with the statistics."""

    version: int
    about: Mapping[str, JsonValue]
    columns: ColumnFields
    lanes: list[LaneFields]
    candidates: NotRequired[list[OlderLaneFields]]
    moments: list[tuple[int, list[float]]]
    occupancy: list[tuple[int, list[float]]]
    before: list[tuple[int, list[tuple[int, int]]]]
    begin_s: float
    end_s: float
    skipped: int
    period_s: float
    wander_s: float
    unsure_s: list[float]
    # Not in recordings of before:
    common_error_s: NotRequired[float]
    undated: NotRequired[bool]
    ambiguous: NotRequired[bool]
    response_from: str


def to_arrays(statistics: Statistics, **about: JsonValue) -> Arrays:
    """Arrays for ``numpy.savez``; ``about`` is kept with them."""
    columns = statistics.columns
    header: Header = {
        "version": VERSION,
        "about": about,
        "columns": {
            "first": list(columns.first.items()),
            "count_of": list(columns.count_of.items()),
            "slices_of": list(columns.slices_of.items()),
            "width": columns.width,
        },
        "lanes": [
            {
                "mean_s": lane.response.mean_s,
                "variance_s2": lane.response.variance_s2,
                "kind": str(lane.response.kind),
                "part_s": lane.response.part_s,
                "tie": str(lane.tie),
                "gain": lane.gain,
                "extras": lane.extras,
            }
            for lane in statistics.lanes
        ],
        "moments": [(k, v.tolist()) for k, v in statistics.moments.items()],
        "occupancy": [(k, v.tolist()) for k, v in statistics.occupancy.items()],
        "before": [(k, list(v.items())) for k, v in statistics.before.items()],
        "begin_s": statistics.begin_s,
        "end_s": statistics.end_s,
        "skipped": statistics.skipped,
        "period_s": statistics.period_s,
        "wander_s": statistics.wander_s,
        "unsure_s": list(statistics.unsure_s),
        "common_error_s": statistics.common_error_s,
        "undated": statistics.undated,
        "ambiguous": statistics.ambiguous,
        "response_from": statistics.response_from,
    }
    arrays: Arrays = {"header": np.array(json.dumps(header))}
    if statistics.lanes:  # all have their blocks at the same places
        blocks = statistics.lanes[0].blocks
        arrays["ledger"] = blocks.ledger[: max(1, len(blocks))]
    for number, lane in enumerate(statistics.lanes):
        sums, rows, until_s = lane.blocks.full()
        upper = np.triu_indices(sums.shape[1])
        arrays[f"sums_{number}"] = sums[:, upper[0], upper[1]]  # symmetric
        arrays[f"rows_{number}"], arrays[f"until_{number}"] = rows, until_s
        arrays[f"power_{number}"], arrays[f"blur_{number}"] = lane.power_w, lane.blur_s2
    return arrays


def from_arrays(
    arrays: Mapping[str, npt.NDArray[Any]],
) -> tuple[Statistics, Mapping[str, JsonValue]]:
    """(statistics, what was kept with them).

    Raises:
        ValueError: written by another version, or damaged.
    """
    try:
        header: Header = json.loads(str(arrays["header" if "header" in arrays else "told"]))
        stored = header["columns"]
        columns = Columns(
            dict(stored["first"]),
            dict(stored["count_of"]),
            dict(stored["slices_of"]),
            stored["width"],
        )
        statistics = Statistics(
            columns,
            moments={k: np.array(v) for k, v in header["moments"]},
            occupancy={k: np.array(v) for k, v in header["occupancy"]},
            begin_s=header["begin_s"],
            end_s=header["end_s"],
            skipped=header["skipped"],
        )
        if header["version"] == OLDER:
            _read_older(statistics, header, arrays)
        elif header["version"] == VERSION:
            _read(statistics, header, arrays)
        else:
            raise ValueError(f"statistics of version {header['version']}, not {VERSION}")
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"damaged statistics: {error}") from error
    return statistics, header["about"]


def _read(statistics: Statistics, header: Header, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    for number, stored in enumerate(header["lanes"]):
        response = Response(
            stored["mean_s"], stored["variance_s2"], Kind(stored["kind"]), stored["part_s"]
        )
        statistics.lanes.append(
            Lane(
                response,
                Tie(stored["tie"]),
                stored["gain"],
                arrays[f"power_{number}"],
                _blocks(arrays, number, statistics.columns.width, stored["extras"]),
                arrays[f"blur_{number}"],
                stored["extras"],
            )
        )
    statistics.before = {k: dict(v) for k, v in header["before"]}
    statistics.period_s = header["period_s"]
    statistics.wander_s = header["wander_s"]
    delay_s, lag_s = header["unsure_s"]
    statistics.unsure_s = delay_s, lag_s
    statistics.common_error_s = header.get("common_error_s", 0.0)
    statistics.undated = header.get("undated", False)
    statistics.ambiguous = header.get("ambiguous", False)
    statistics.response_from = header["response_from"]


def _read_older(
    statistics: Statistics, header: Header, arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Lanes of a run that was recorded before responses were inferred."""
    width = statistics.columns.width
    for number, stored in enumerate(header["candidates"]):
        if stored["disturb"]:
            continue
        statistics.lanes.append(
            Lane(
                Response.of(-stored["offset_s"], stored["tau_s"]),
                Tie.EXACT,
                stored["gain"],
                np.zeros(width),
                _blocks(arrays, number, width, 0),
                np.zeros((width, width)),
                0,
            )
        )
    statistics.response_from = OLDER_RECORDING


def _blocks(arrays: Mapping[str, npt.NDArray[Any]], number: int, width: int, extras: int) -> Blocks:
    packed = arrays[f"sums_{number}"]
    size = 1 + extras + width
    upper = np.triu_indices(size)
    sums = np.zeros((len(packed), size, size))
    sums[:, upper[0], upper[1]] = packed
    sums[:, upper[1], upper[0]] = packed
    ledger = None if number else arrays["ledger"]
    return Blocks.restore(
        sums, arrays[f"rows_{number}"], arrays[f"until_{number}"], ledger, extras=extras
    )
