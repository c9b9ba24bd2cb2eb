"""Which rank's phases does a device's energy belong to?

An accelerator belongs to the rank that selected it, a CPU to the only rank of its node, a rank's
process to that rank.
A device that several ranks share gets a total and one ``unattributed`` row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..model import DeviceKind, Source
from ..sensors.device_selection import numbered, select
from ..store.members import Member


def owner(
    source: Source, sources: Sequence[Source], members: Sequence[Member], ranks: Collection[int]
) -> int | None:
    """The rank whose phases the source's device belongs to; None if several or none.

    Args:
        source: a meter of the device.
        sources: all meters of the node.
        members: processes of the node, with the devices that they requested.
        ranks: the ranks to choose from.
    """
    if source.device_kind is DeviceKind.RANK:
        return source.index if source.index in ranks else None
    if not source.is_accelerator:
        return next(iter(ranks)) if len(ranks) == 1 else None
    users = ranks_of(source, sources, members) & set(ranks)
    return users.pop() if len(users) == 1 else None


def ranks_of(source: Source, sources: Sequence[Source], members: Sequence[Member]) -> set[int]:
    """The ranks that use a device; a CPU is used by all."""
    ranks = [member for member in members if member.role == "rank"]
    if source.device_kind is DeviceKind.RANK:
        return {member.seat for member in ranks if member.seat == source.index}
    if not source.is_accelerator:
        return {member.seat for member in ranks}
    devices = numbered(
        {
            other.index: other.uuid
            for other in sources
            if other.index is not None and other.vendor == source.vendor
        }
    )
    return {
        member.seat
        for member in ranks
        if source.index in select(devices, [member.request], vendor=source.vendor).indices
    }
