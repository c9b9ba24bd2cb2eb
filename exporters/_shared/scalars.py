"""Scalars for trackers: ``energy/*`` per step, ``energy_final/*`` as in the report.

No meter resolves one step. A row therefore covers the steps since the row before, over at least
some updates of the meters, and its values per step are means over those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from probe.analysis.open import open_analyses
from probe.clock import Anchor
from probe.timeline.rank_timeline import timeline
from probe.units import J_PER_KWH

from .run import ExportRefused, StoredRun

MOST_ROWS = 1000
_FEWEST_UPDATES = 5  # between two rows


@dataclass(frozen=True, slots=True)
class Row:
    """After ``step`` steps, at ``wall_s`` since 1970."""

    step: int
    wall_s: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Scalars:
    """A run's energy for trackers.

    ``rows``: ``energy/*`` over the run's steps. ``final``: the report's figures; their separate
    name ``energy_final/*`` is needed because trackers show the last row as the run's summary.
    """

    rows: list[Row]
    final: Row  # after the last step, at the run's end
    config: Mapping[str, Any]


def plain(name: str) -> str:
    """The name with only the characters that all trackers accept."""
    return re.sub(r"[^A-Za-z0-9_.\-/ ]+", "_", name)[:200]


def scalars(run: StoredRun) -> Scalars:
    """The scalars of a run. Raises ExportRefused if its energy is unknown."""
    report = run.report
    final = _final(report)
    if not final:
        raise ExportRefused(f"{run.id} has no energy to log: `probe doctor` says why")
    fields, machine = report["run"], report["machine"]
    config = {
        "probe.run": fields["id"],
        "probe.status": fields["status"],
        "probe.host": fields["host"],
        "probe.data": fields["data"],
        "probe.cpu": str(machine.get("cpu_model", "")),
        "probe.devices": ", ".join(
            sorted({row["model"] or row["device"] for row in report["sources"] if row["in_total"]})
        ),
    }
    return Scalars(_rows(run), Row(fields["steps"], run.end_s, final), config)


def _final(report: Mapping[str, Any]) -> dict[str, float]:
    total, figures = report["total"], {}
    low, high = total["energy_j_interval"] or (None, None)
    for name, value in (
        ("total_j", total["energy_j"]),
        ("total_j_low", low),
        ("total_j_high", high),
        ("co2e_g", total["co2e_g"]),
        ("modelled_j", total["modelled_energy_j"]),
        ("modelled_co2e_g", total["modelled_co2e_g"]),
        ("coverage", total["coverage"]),
    ):
        if value is not None:
            figures[f"energy_final/{name}"] = float(value)
    for row in report["phases"]:
        if row["energy_j"] is None:
            continue
        name = f"energy_final/{row['device']}/{row['phase']}_j"
        if row["provenance"] == "modelled":
            name += "_modelled"
        figures[name] = float(row["energy_j"])
        if row["energy_j_interval"]:
            figures[f"{name}_low"], figures[f"{name}_high"] = map(float, row["energy_j_interval"])
    return figures


def _rows(run: StoredRun) -> list[Row]:
    reader = run.reader
    ranks = reader.ranks()
    host = timeline(reader, ranks[0]) if ranks else None
    curves = [
        (d.curve, analysis.reader.ahead_ns)
        for analysis in open_analyses(run.path)
        for d in analysis.devices
        if d.source.in_total and d.curve is not None
    ]
    if host is None or not host.steps or not curves:
        return []
    closed = np.sort(host.step_ns)
    widest_s = _FEWEST_UPDATES * max(curve.period_s for curve, _ in curves)
    apart_ns = max(widest_s * 1e9, (closed[-1] - reader.begin_ns) / MOST_ROWS)
    chosen = _apart(closed, reader.begin_ns, apart_ns)
    if not len(chosen):
        return []
    at_ns = np.concatenate([[reader.begin_ns], closed[chosen]])
    joules = np.sum([curve.at(at_ns - ahead_ns) for curve, ahead_ns in curves], axis=0)
    spent, seconds = np.diff(joules), np.diff(at_ns) / 1e9
    number = np.diff(chosen + 1, prepend=0)
    samples = _logged(run, at_ns)
    grams = (run.report["carbon"] or {}).get("g_per_kwh")  # the mean, where it changes with time
    anchor = Anchor(**reader.meta["anchor"])
    rows = []
    for place, step in enumerate(chosen.tolist()):
        total_j = float(joules[place + 1] - joules[0])
        values = {
            "energy/total_j": total_j,
            "energy/power_w": float(spent[place] / seconds[place]),
            "energy/j_per_step": float(spent[place] / number[place]),
        }
        if samples is not None and samples[place] > 0:
            values["energy/j_per_sample"] = float(spent[place] / samples[place])
        if grams is not None:
            values["energy/co2e_g"] = total_j / J_PER_KWH * grams
        wall_s = anchor.wall_of(int(at_ns[place + 1])).timestamp()
        rows.append(Row(step + 1, wall_s, values))
    return rows


def _apart(closed: npt.NDArray[np.int64], begin_ns: int, apart_ns: float) -> npt.NDArray[np.int64]:
    """Places of instants that are at least so far from each other and the begin."""
    cell = ((closed - begin_ns) / apart_ns).astype(np.int64)
    first = np.flatnonzero(np.diff(cell, prepend=0) > 0)
    keep = np.diff(closed[first], prepend=begin_ns) > 0.5 * apart_ns
    return first[keep]


def _logged(run: StoredRun, at_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | None:
    """Samples (or tokens) that the run logged between the instants; None if it did not."""
    values = run.reader.logged()
    counts = values.get("samples") or values.get("tokens")
    if counts is None:
        return None
    time_ns, number = counts
    total = np.concatenate([[0.0], np.cumsum(number)])
    return np.diff(total[np.searchsorted(time_ns, at_ns, "right")])
