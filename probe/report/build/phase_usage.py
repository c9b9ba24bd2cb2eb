"""Each phase's memory and activity beside its energy, on the rows of the rank that ran it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...model import DeviceKind, device_kind
from ..model import MemoryGrowth, MemoryRow, PhaseActivity, PhaseRow, RateRow
from ..sentences import growing_memory


def with_memory(
    rows: Sequence[PhaseRow], memory: Iterable[MemoryRow], rank_of: Mapping[str, int]
) -> list[PhaseRow]:
    """The same rows with ``memory_peak_bytes`` and ``memory_mean_bytes``, where they are known.

    A GPU's rows get what was allocated on it, all others what the rank's process held.

    Args:
        rank_of: the rank whose phases the rows of a device are.
    """
    by_place = {(row.device, row.phase, row.quantity): row for row in memory}
    alone = Counter(rank for device, rank in rank_of.items() if _is_gpu(device))
    filled = []
    for row in rows:
        rank = rank_of.get(row.device)
        places = [(f"rank{rank}", "resident")]
        if _is_gpu(row.device):  # torch's allocator says which rank's, not which GPU's
            allocated = [(f"rank{rank}", "allocated")] if rank is None or alone[rank] < 2 else []
            places = [*allocated, (row.device, "used")]
        levels = (by_place.get((device, row.phase, quantity)) for device, quantity in places)
        held = next((level for level in levels if level is not None), None)
        if held is None:
            filled.append(row)
        else:
            peak, mean = held.peak_bytes, held.mean_bytes
            filled.append(replace(row, memory_peak_bytes=peak, memory_mean_bytes=mean))
    return filled


def _is_gpu(device: str) -> bool:
    return device_kind(device) is DeviceKind.ACCELERATOR


def with_activity(
    rows: Iterable[PhaseRow], rates: Iterable[RateRow], rank_of: Mapping[str, int]
) -> list[PhaseRow]:
    """The same rows with the rates of their device and of their rank's process.

    Args:
        rank_of: the rank whose phases the rows of a device are.
    """
    by_place: dict[tuple[str, str], dict[str, PhaseActivity]] = {}
    for rate in rates:
        if rate.value is not None and rate.interval is not None:
            of_phase = by_place.setdefault((rate.device, rate.phase), {})
            of_phase[rate.quantity] = PhaseActivity(value=rate.value, interval=rate.interval)
    filled = []
    for row in rows:
        process = f"rank{rank_of[row.device]}" if row.device in rank_of else row.device
        places = dict.fromkeys((row.device, process))
        activity = {
            k: v for place in places for k, v in by_place.get((place, row.phase), {}).items()
        }
        filled.append(replace(row, activity=activity) if activity else row)
    return filled


def leaks(growth: Iterable[MemoryGrowth], *, several: bool) -> list[str]:
    """One line for each level that keeps growing; ``several``: the run has more than one rank."""
    return [growing_memory(row, several=several) for row in growth if row.grows]
