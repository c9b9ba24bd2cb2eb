"""Memory that ranks held in their phases, and how it grew."""

from __future__ import annotations

from dataclasses import dataclass

from .values import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """Bytes that a rank held in a phase."""

    rank: int
    """Number of the rank."""
    device: str
    """Device whose memory it is for ``used``; else the rank, such as ``rank0``."""
    quantity: str
    """Which memory: ``allocated`` or ``reserved`` by torch on the rank's GPU, ``used`` on all of
    the GPU, ``resident`` in the rank's process."""
    source: str
    """Id of the source; empty for torch's allocator."""
    phase: str
    """Name of the phase."""
    mean_bytes: float
    """Mean over the phase."""
    peak_bytes: float
    """Highest level that was seen in the phase."""
    peak_at_most_bytes: float | None = None
    """Upper limit of the peak, where memory may have been higher between two reads; null without
    such a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrowth:
    """How much more a rank holds from step to step: the slope of the lowest level of each block.

    The first quarter of the run's steps is left out.
    """

    rank: int
    """Number of the rank."""
    device: str
    """Device whose memory it is for ``used``; else the rank, such as ``rank0``."""
    quantity: str
    """Which memory: ``allocated``, ``reserved``, ``used`` or ``resident``."""
    source: str
    """Id of the source; empty for torch's allocator."""
    steps: int
    """Number of steps over which growth was looked for."""
    bytes_per_step: float
    """Growth per step: the median slope between all pairs of blocks of steps."""
    bytes_per_step_interval: Interval
    """Interval of ``bytes_per_step``."""
    grown_bytes: float
    """Growth over these steps: the last blocks against the first ones."""
    grows: bool
    """Whether it rose steadily (Mann-Kendall test, p < 0.001) and by more than 1 % and 8 MiB."""
