"""Phases that are known only together: rows of ``groups``; and which run in lock with the meter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..attribution.columns import UNATTRIBUTED
from ..attribution.estimate import Estimate, PhaseEstimate
from ..model import Phase, Status
from ..report.model import GroupRow
from ..timeline.phase_totals import PhaseTotals


@dataclass(frozen=True, slots=True)
class PhasePart:
    """One phase of a device before it becomes a row: its time, its energy and hard bounds in J."""

    code: int
    seconds: float
    energy: PhaseEstimate
    bounds_j: tuple[float, float]


def phase_name(code: int, phases: PhaseTotals) -> str:
    """What the report calls a phase code of a rank."""
    return str(Phase.UNATTRIBUTED) if code == UNATTRIBUTED else phases.name(code)


def group_rows(
    estimated: Estimate, parts: Sequence[PhasePart], phases: PhaseTotals, label: str
) -> list[GroupRow]:
    """For refused phases: the smallest sum with neighbours in time that is resolved."""
    refused = [
        p.code
        for p in parts
        if p.energy.status is Status.NOT_IDENTIFIABLE and p.code in estimated.codes
    ]
    neighbours = phases.follows
    groups: list[frozenset[int]] = []
    for code in refused:
        joined = [code]
        while len(joined) < len(estimated.codes):
            near = [
                (count, other)
                for (a, b), count in neighbours.items()
                for phase, other in ((a, b), (b, a))
                if phase in joined and other not in joined and other in estimated.codes
            ]
            if not near:
                break
            joined.append(max(near)[1])
            if estimated.of(*joined).status is Status.RESOLVED:
                groups.append(frozenset(joined))
                break
    rows = []
    for group in dict.fromkeys(groups):
        energy = estimated.of(*group)
        rows.append(
            GroupRow(
                device=label,
                phases=tuple(phase_name(c, phases) for c in estimated.codes if c in group),
                energy_j=energy.energy_j,
                energy_j_interval=(max(0.0, energy.low_j), energy.high_j),
            )
        )
    return rows


def lock_warnings(estimated: Estimate, phases: PhaseTotals, label: str) -> list[str]:
    """A warning that names the phases in lock with the meter; none if there are no such phases."""
    locked = [phase_name(c, phases) for c in estimated.codes if estimated.of(c).why == "locked"]
    if not locked:
        return []
    return [
        f"{label}: the step runs in lock with the meter's updates, so "
        f"{', '.join(locked)} cannot be told apart; watch(dither=…) breaks the lock"
    ]
