"""Sums over phases: several GPUs as one, and the phase that takes most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..chart_data import MODELLED, Overview, PhaseRow, with_known_phases


def measured(row: PhaseRow) -> bool:
    """Whether a meter, not a model, says what the phase used."""
    return row.energy_j is not None and row.provenance != MODELLED


def pooled(rows: Sequence[PhaseRow]) -> list[PhaseRow]:
    """The rows with several GPUs as one device.

    Energies add up, and so do their intervals, because errors may be correlated. A phase that is
    refused on one GPU is refused on all together.
    """
    gpus = [row for row in rows if row.is_accelerator]
    devices = list(dict.fromkeys(row.device for row in gpus))
    if len(devices) < 2:
        return list(rows)
    name = f"{len(devices)} GPUs together"
    together = []
    for phase in dict.fromkeys(row.phase for row in gpus):
        same = [row for row in gpus if row.phase == phase]
        energy_known = all(row.energy_j is not None for row in same)
        seconds = [row.time_s for row in same if row.time_s is not None]
        spans = [row.interval_j for row in same]
        limits = [row.interval_j or row.bounds_j or (row.energy_j, row.energy_j) for row in same]
        together.append(
            PhaseRow(
                phase=phase,
                device=name,
                count=same[0].count,
                time_s=sum(seconds) / len(seconds) if seconds else None,
                energy_j=sum(row.energy_j or 0.0 for row in same) if energy_known else None,
                interval_j=_added(spans) if energy_known else None,
                bounds_j=None if energy_known else _added(limits),
                power_w=None,
                status=same[0].status,
                provenance=same[0].provenance,
            )
        )
    rest = [row for row in rows if row not in gpus]
    return together + rest


def _added(limits: Sequence[Any]) -> tuple[float, float] | None:
    if any(pair is None or pair[0] is None for pair in limits):
        return None
    return sum(low for low, _ in limits), sum(high for _, high in limits)


def largest_phase(run: Overview) -> tuple[PhaseRow, float, str] | None:
    """The phase that takes most, its share, and of what: energy if that is known, else time."""
    rows = pooled(with_known_phases(run.phases))
    named = [row for row in rows if row.phase not in ("unattributed", "unresolved")]
    if any(measured(row) for row in named):  # a model's joules are never added to measured ones
        named = [row for row in named if row.provenance != MODELLED]
        rows = [row for row in rows if row.provenance != MODELLED]
    for joules in (True, False):
        by_phase: dict[str, float] = {}
        for row in named:
            value = row.energy_j if joules else row.time_s
            if value is not None:
                by_phase[row.phase] = by_phase.get(row.phase, 0.0) + value
        total = sum(row.energy_j or 0.0 for row in rows) if joules else sum(by_phase.values())
        if by_phase and total:
            phase = max(by_phase, key=lambda name: by_phase[name])
            row = next(row for row in named if row.phase == phase)
            return row, by_phase[phase] / total, "energy" if joules else "time"
    return None
