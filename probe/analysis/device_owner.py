"""Which rank's phases does a device's energy belong to?

A GPU belongs to the rank that selected it, a CPU to the only rank of its node.
A device that several ranks share gets a total and one ``unattributed`` row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..model import Source
from ..sensors.nvml.selection import Identity, select
from ..store.members import Member


def owner(
    source: Source, sources: Sequence[Source], members: Sequence[Member], ranks: Collection[int]
) -> int | None:
    """The one of these ranks whose phases the source's device belongs to; None if several or
    none.
    """
    if not source.device.startswith("gpu"):
        return next(iter(ranks)) if len(ranks) == 1 else None
    users = ranks_of(source, sources, members) & set(ranks)
    return users.pop() if len(users) == 1 else None


def ranks_of(source: Source, sources: Sequence[Source], members: Sequence[Member]) -> set[int]:
    """The ranks that use a device; a CPU is used by all."""
    ranks = [member for member in members if member.role == "rank"]
    if not source.device.startswith("gpu"):
        return {member.rank for member in ranks}
    uuids = {
        int(other.device[3:]): other.uuid
        for other in sources
        if other.device.startswith("gpu") and other.device[3:].isdigit()
    }
    # Only used cards were recorded; the places of the others keep the numbers right.
    devices = [Identity(index=i, uuid=uuids.get(i, "")) for i in range(max(uuids, default=-1) + 1)]
    return {
        member.rank
        for member in ranks
        if source.device in {f"gpu{i}" for i in select(devices, [member.request]).indices}
    }
