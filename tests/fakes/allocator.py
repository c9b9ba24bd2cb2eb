"""A stand-in of torch's GPU allocator whose sequence is known."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass
class Allocator:
    """What ``torch.cuda.memory_stats`` counts, moved by hand."""

    current: int = 0
    peak: int = 0
    reserved: int = 0

    def to(self, current: int, *, through: int = 0) -> None:
        """Hold so many MiB, with more of them for a moment."""
        self.current = current * MIB
        self.peak = max(self.peak, self.current, through * MIB)
        self.reserved = max(self.reserved, self.peak)

    def statistics(self) -> dict[str, dict[str, dict[str, int]]]:
        return {
            "allocated_bytes": {"all": {"current": self.current, "peak": self.peak}},
            "reserved_bytes": {"all": {"current": self.reserved}},
        }
