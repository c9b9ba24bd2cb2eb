"""A finished run from what its recorder summed up: no sample and no edge is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..attribution.meter_kinds import is_attributed
from ..attribution.regression.statistics import Statistics
from ..attribution.time_split import Shares
from ..model import Source
from ..store.reader import COUNTS, RunReader, read_sources
from ..timeline.phase_totals import Tally
from . import device_energy
from .base import Scene, bounds_of
from .statistics_source import sealed
from .summary_file import NodeSummary, read_summary


class SealedScene(Scene):
    """Of a whole run. Made by :meth:`open`."""

    def __init__(self, reader: RunReader, nodes: Sequence[tuple[list[Source], NodeSummary]]):
        self._nodes = [node for _, node in nodes]
        self._known: dict[str, Statistics | None] = {}
        self._device = {tally.rank: tally for node in self._nodes for tally in node.on_device}
        self.on_device = self._device
        super().__init__(
            reader,
            bounds_of(reader),
            [
                device_energy.Meter(source, node.meters[source.id])
                for sources, node in nodes
                for source in sources
            ],
        )

    @classmethod
    def open(cls, reader: RunReader) -> SealedScene | None:
        """None if the recorder did not sum up all of the run, and raw data must be read."""
        nodes = []
        for folder in reader.nodes():
            node = read_summary(reader.path, folder.name[5:])
            sources = read_sources(folder)
            if node is None or any(source.id not in node.meters for source in sources):
                return None
            nodes.append((sources, node))
        ranks = {tally.rank for _, node in nodes for tally in node.tallies}
        if not nodes or ranks != set(reader.ranks()):
            return None
        scene = cls(reader, nodes)
        return scene if all(scene._told(meter.source) for meter in scene.meters) else None

    def _told(self, source: Source) -> bool:
        """Whether everything is known of a meter whose phases are one rank's."""
        totals = self.owner_of(source)
        if totals is None or not totals.seconds:
            return True
        device = next(
            (candidate for candidate in self.devices if candidate.source.id == source.id), None
        )
        if device is not None and device.curve is not None:
            owners = [node.owners.get(source.id) for node in self._nodes]
            if device.summary.shares is None or totals.rank not in owners:
                return False
        followed = any(source.id in node.followed for node in self._nodes)
        return followed or not is_attributed(source)

    @property
    def tallies(self) -> Sequence[Tally]:
        """Of every rank that recorded edges."""
        return sorted((t for node in self._nodes for t in node.tallies), key=lambda t: t.rank)

    def clocked(self) -> Sequence[Tally]:
        """Of every rank, on its device's clock where that was recorded."""
        return [self._device.get(tally.rank, tally) for tally in self.tallies]

    def values(self) -> dict[str, dict[str, Any]]:
        """What the ranks logged: name → count, last, sum."""
        merged: dict[str, dict[str, Any]] = {}
        for _, logged in sorted(
            (rank, by_name) for node in self._nodes for rank, by_name in node.values.items()
        ):
            first = not merged
            for name, value in logged.items():
                if first or (name in COUNTS and name not in merged):
                    merged[name] = dict(value)
                elif name in COUNTS:
                    merged[name] = added(merged[name], value)
        return {name: value for name, value in merged.items() if value["last"] is not None}

    def reductions(self) -> Mapping[int, Mapping[str, Any]]:
        """By rank, what reducing gradients cost it."""
        return {rank: sums for node in self._nodes for rank, sums in node.reductions.items()}

    def _tally_on(self, source: Source, rank: int) -> Tally:
        if source.device.startswith("gpu") and rank in self._device:
            return self._device[rank]
        return next(tally for tally in self.tallies if tally.rank == rank)

    def _shares(self, device: device_energy.Device, rank: int) -> Shares:
        assert device.summary.shares is not None
        return device.summary.shares

    def _statistics(self, source: Source, rank: int) -> Statistics | None:
        if source.id not in self._known:
            rings = next(node.rings[rank] for node in self._nodes if rank in node.rings)
            gpu = source.device.startswith("gpu")
            self._known[source.id] = sealed(
                self.reader.nodes(), source, rank, rings, on_device=gpu and rank in self._device
            )
        return self._known[source.id]


def added(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of two ranks, or of two hosts, together."""
    sums = [counts["sum"] for counts in (first, second) if counts["sum"] is not None]
    return {
        "count": first["count"] + second["count"],
        "last": first["last"],
        "sum": sum(sums) if sums else None,
    }
