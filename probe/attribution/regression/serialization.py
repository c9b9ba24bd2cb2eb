"""Statistics as plain arrays, to be sealed in the store and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .blocks import Blocks
from .columns import Columns
from .statistics import Candidate, Statistics

VERSION = 2
Arrays = dict[str, npt.NDArray[Any]]


def to_arrays(statistics: Statistics, **about: Any) -> Arrays:
    """Arrays for ``numpy.savez``; ``about`` is kept with them."""
    columns = statistics.columns
    header = {
        "version": VERSION,
        "about": about,
        "columns": {
            "first": list(columns.first.items()),
            "count_of": list(columns.count_of.items()),
            "slices_of": list(columns.slices_of.items()),
            "width": columns.width,
        },
        "candidates": [
            {"tau_s": c.tau_s, "offset_s": c.offset_s, "gain": c.gain, "disturb": c.disturb}
            for c in statistics.candidates
        ],
        "moments": [[k, v.tolist()] for k, v in statistics.moments.items()],
        "occupancy": [[k, v.tolist()] for k, v in statistics.occupancy.items()],
        "begin_s": statistics.begin_s,
        "end_s": statistics.end_s,
        "skipped": statistics.skipped,
        "unsure_kernel": statistics.lag_is_unsure,
    }
    arrays: Arrays = {"told": np.array(json.dumps(header))}
    if statistics.candidates:  # all have their blocks at the same places
        blocks = statistics.candidates[0].blocks
        arrays["ledger"] = blocks.ledger[: max(1, len(blocks))]
    upper = np.triu_indices(columns.width + 1)
    for number, candidate in enumerate(statistics.candidates):
        sums, rows, until_s = candidate.blocks.full()
        arrays[f"sums_{number}"] = sums[:, upper[0], upper[1]]  # symmetric
        arrays[f"rows_{number}"], arrays[f"until_{number}"] = rows, until_s
    return arrays


def from_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[Statistics, dict[str, Any]]:
    """(statistics, what was kept with them).

    Raises:
        ValueError: written by another version, or damaged.
    """
    try:
        header = json.loads(str(arrays["told"]))
        if header["version"] != VERSION:
            raise ValueError(f"statistics of version {header['version']}, not {VERSION}")
        stored = header["columns"]
        columns = Columns(
            dict(stored["first"]),
            dict(stored["count_of"]),
            dict(stored["slices_of"]),
            stored["width"],
        )
        upper = np.triu_indices(columns.width + 1)
        candidates = []
        for number, about in enumerate(header["candidates"]):
            packed = arrays[f"sums_{number}"]
            sums = np.zeros((len(packed), columns.width + 1, columns.width + 1))
            sums[:, upper[0], upper[1]] = packed
            sums[:, upper[1], upper[0]] = packed
            blocks = Blocks.restore(
                sums,
                arrays[f"rows_{number}"],
                arrays[f"until_{number}"],
                None if number else arrays["ledger"],
            )
            candidates.append(Candidate(**about, blocks=blocks))
        statistics = Statistics(
            columns,
            candidates,
            {k: np.array(v) for k, v in header["moments"]},
            {k: np.array(v) for k, v in header["occupancy"]},
            header["begin_s"],
            header["end_s"],
            header["skipped"],
            header["unsure_kernel"],
        )
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"damaged statistics: {error}") from error
    return statistics, dict(header["about"])
