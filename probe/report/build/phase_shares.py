"""Each phase's share of its device's time and energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...model import Phase
from ..model import PhaseRow


def with_shares(rows: Sequence[PhaseRow]) -> tuple[PhaseRow, ...]:
    """The same rows with ``time_share`` and ``energy_share``.

    ``unresolved`` has the joint energy of phases that have rows of their own: its time is theirs,
    so it has no share of time.
    """
    seconds: dict[str, float] = {}
    joules: dict[str, float] = {}
    for row in rows:
        if row.phase != Phase.UNRESOLVED:
            seconds[row.device] = seconds.get(row.device, 0.0) + row.time_s
        joules[row.device] = joules.get(row.device, 0.0) + (row.energy_j or 0.0)
    return tuple(
        replace(
            row,
            time_share=None
            if row.phase == Phase.UNRESOLVED or not seconds[row.device]
            else row.time_s / seconds[row.device],
            energy_share=None
            if row.energy_j is None or not joules[row.device]
            else row.energy_j / joules[row.device],
        )
        for row in rows
    )
