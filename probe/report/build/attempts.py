"""The attempts of a job whose ranks were started again: what each used, and what was lost.

What a rank did after the last state that it saved (its last ``checkpoint`` phase) was computed for
nothing when it died. Without such a phase nobody can say what was lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...analysis.base import RunAnalysis
from ...model import Phase
from ...store.members import Member
from ...timeline.rank_timeline import Timeline, parts
from ..model import AttemptRow

_MANY = 3


def attempts(analysis: RunAnalysis, host: str) -> tuple[AttemptRow, ...]:
    """One row each, in order of time; none if there was but one."""
    ranks = [member for member in analysis.reader.members if member.role == "rank"]
    first = min((member.rank for member in ranks), default=0)
    starts = sorted((m for m in ranks if m.rank == first), key=lambda m: m.begin_ns)
    if len(starts) < 2:
        return ()
    timelines = parts(analysis.reader, first)
    ends = [*(member.begin_ns for member in starts[1:]), analysis.run[1]]
    rows = []
    for number, (member, until_ns) in enumerate(zip(starts, ends, strict=True)):
        inside = [spans for spans in timelines if member.begin_ns <= spans.begin_ns[0] < until_ns]
        end_ns = max((int(spans.end_ns[-1]) for spans in inside), default=member.begin_ns)
        last = number == len(starts) - 1
        lost_ns = None if last else _since_saved(inside, end_ns)
        rows.append(
            AttemptRow(
                attempt=member.attempt,
                host=host,
                begin_s=(member.begin_ns - analysis.run[0]) / 1e9,
                end_s=(end_ns - analysis.run[0]) / 1e9,
                steps=sum(spans.steps for spans in inside),
                energy_j=_joules(analysis, member.begin_ns, end_ns),
                lost_s=None if lost_ns is None else lost_ns / 1e9,
                lost_j=None if lost_ns is None else _joules(analysis, end_ns - lost_ns, end_ns),
                ended_by="" if last else _why([m for m in ranks if m.attempt == member.attempt]),
            )
        )
    return tuple(rows)


def _since_saved(timelines: Sequence[Timeline], end_ns: int) -> int | None:
    saved = []
    for spans in timelines:
        codes = [
            code for code in np.unique(spans.code) if spans.name(int(code)) == Phase.CHECKPOINT
        ]
        saved += spans.end_ns[np.isin(spans.code, codes)][-1:].tolist()
    return end_ns - max(saved) if saved else None


def _joules(analysis: RunAnalysis, begin_ns: int, end_ns: int) -> float | None:
    curves = [
        device.curve
        for device in analysis.devices
        if device.source.in_total and device.curve is not None
    ]
    if not curves:
        return None
    ends = np.array([begin_ns, end_ns])
    return float(sum(np.diff(curve.at(ends))[0] for curve in curves))


def _why(members: Sequence[Member]) -> str:
    """Those that died come first: the others' errors mostly follow from it."""
    dead = [
        f"rank {m.rank} died without leaving the watched block"
        for m in members
        if not m.info.get("left")
    ]
    errors = [f"rank {m.rank}: {m.info['error']}" for m in members if m.info.get("error")]
    return "; ".join([*dead, *errors][:_MANY])
