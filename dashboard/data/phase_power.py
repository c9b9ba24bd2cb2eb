"""Measured power split by phase: what the meter saw, shared by what each phase draws."""

from __future__ import annotations

import numpy as np

from probe.model import Phase
from probe.ring.layout import Code
from probe.store.segment_reader import has_thinned
from probe.timeline.device_times import on_device
from probe.timeline.span_table import SpanTable
from probe.timeline.spans import decode

from ..chart_data import MEASURED, Floats, PhasePower, Power
from .run import OpenRun

_MOST_STEPS = 20_000  # of which all edges are read
_PLACES = 80  # where phases are looked up in a longer span
_STEPS_A_PLACE = 4


def phase_power(run: OpenRun, watts: Power | None) -> PhasePower | None:
    """The metered devices' power in the bins of ``watts``, by phase of the first rank.

    In each bin the phases share the measured power by their time in it, weighted with their mean
    power in the run's report. None without a meter, or where no phase was recorded.
    """
    if watts is None:
        return None
    chosen = [i for i, kind in enumerate(watts.provenance) if kind == MEASURED]
    ranks = run.reader.ranks()
    if not chosen or not ranks:
        return None
    total = power_together(watts.mean_w[chosen])
    table, names, places = _spans(run, ranks[0], watts.edges_s)
    seconds = _seconds(table, names, run.reader.begin_ns, watts.edges_s)
    if not seconds:
        return None
    if places is not None:
        seconds = {phase: _filled(spent) for phase, spent in seconds.items()}
    phases = sorted(seconds, key=lambda phase: -float(np.nansum(seconds[phase])))
    weights = _weights(run)
    usual = float(np.median(list(weights.values()))) if weights else 1.0
    weighted = np.array([seconds[phase] * weights.get(phase, usual) for phase in phases])
    all_ = weighted.sum(axis=0)
    share = np.divide(weighted, all_, out=np.zeros_like(weighted), where=all_ > 0)
    outside = np.where(all_ > 0, 0.0, total)
    if np.nansum(outside) > 0:
        phases, share = [*phases, str(Phase.UNATTRIBUTED)], np.vstack([share, all_ <= 0])
    return PhasePower(watts.edges_s, phases, share * total, len(chosen), places)


def power_together(mean_w: Floats) -> Floats:
    """The sum of devices × bins; NaN where one of them has readings before and after, but none."""
    present = np.isfinite(mean_w)
    before = np.logical_or.accumulate(present, axis=1)
    after = np.logical_or.accumulate(present[:, ::-1], axis=1)[:, ::-1]
    missed = (before & after & ~present).any(axis=0)
    return np.where(missed | ~present.any(axis=0), np.nan, np.nansum(mean_w, axis=0))


def _spans(
    run: OpenRun, rank: int, edges_s: Floats
) -> tuple[SpanTable, dict[int, str], int | None]:
    """(spans, names of their codes, at how many places they were read or None for all)."""
    reader = run.reader
    begin_ns, low, high = reader.begin_ns, float(edges_s[0]), float(edges_s[-1])
    closed = run.step_times().read()
    low_ns, high_ns = (begin_ns + int(1e9 * second) for second in (low, high))
    inside = closed.time_ns[(closed.time_ns >= low_ns) & (closed.time_ns <= high_ns)]
    thinned = any(has_thinned(folder, "edges") for folder, _ in reader.folders(rank))
    if len(inside) * closed.every <= _MOST_STEPS and not thinned:
        margin = int(2e9)
        return *_decoded(run, rank, low_ns - margin, high_ns + margin), None
    tables: list[SpanTable] = []
    names: dict[int, str] = {}
    if len(inside) <= _STEPS_A_PLACE:
        return SpanTable.empty(), names, 0
    ends = np.linspace(0, len(inside) - 1 - _STEPS_A_PLACE, _PLACES).astype(int)
    for place in ends:
        first, last = int(inside[place]), int(inside[place + _STEPS_A_PLACE])
        table, names = _decoded(run, rank, first, last)
        tables.append(table)
    return SpanTable.concat(tables), names, _PLACES


def _decoded(
    run: OpenRun, rank: int, low_ns: int, high_ns: int
) -> tuple[SpanTable, dict[int, str]]:
    rings = run.reader.rings_between(rank, low_ns, high_ns)
    mains = [(name, rows) for name, rows in rings if name.startswith("main") and len(rows)]
    others = [rows for name, rows in rings if not name.startswith("main")]
    if not mains:
        return SpanTable.empty(), {}
    name, rows = mains[0]
    moved = on_device(rows)
    return decode(rows if moved is None or not len(moved) else moved, others), run.reader.names(
        rank, name
    )


def _seconds(
    table: SpanTable, names: dict[int, str], begin_ns: int, edges_s: Floats
) -> dict[str, Floats]:
    """Whole phases (forward with its parts) → seconds in each bin."""
    keep = table.code != Code.OUTSIDE
    begin, end = ((at[keep] - begin_ns) / 1e9 for at in (table.begin_ns, table.end_ns))
    whole = {code: names.get(int(code), Phase.OTHER).partition("/")[0] for code in set(table.code)}
    labels = np.array([str(whole[code]) for code in table.code[keep]])
    seconds = {}
    for phase in dict.fromkeys(labels.tolist()):
        of = labels == phase
        order = np.argsort(begin[of], kind="stable")
        at = np.column_stack([begin[of][order], end[of][order]]).ravel()
        spent = np.cumsum(np.column_stack([np.zeros(int(of.sum())), (end - begin)[of][order]]))
        seconds[phase] = np.diff(np.interp(edges_s, at, spent))
    return seconds


def _filled(seconds: Floats) -> Floats:
    """Where no place was looked at, what the places around say."""
    return np.convolve(seconds, np.ones(13) / 13, "same")


def _weights(run: OpenRun) -> dict[str, float]:
    """Mean power of each phase over the devices, in W, where the report states it."""
    joules: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for row in run.report_now().phases:
        if row.energy_j is None or row.is_modelled or not row.time_s:
            continue
        phase = row.phase.partition("/")[0]
        joules[phase] = joules.get(phase, 0.0) + row.energy_j
        seconds[phase] = seconds.get(phase, 0.0) + row.time_s
    return {phase: joules[phase] / seconds[phase] for phase in joules if joules[phase] > 0}
