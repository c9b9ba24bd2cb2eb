"""The analysis of a finished run from what its recorder summed up: no sample, no edge is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..attribution.meter_kinds import is_attributed
from ..attribution.regression.statistics import Statistics
from ..attribution.time_split import TimeShares
from ..model import Source
from ..report.model import LoggedValue
from ..store.loaded_samples import COUNTS, with_loaded_samples
from ..store.node_files import read_sources
from ..store.reader import RunReader
from ..timeline.ddp_reductions import ReductionSums
from ..timeline.phase_levels import PhaseLevels
from ..timeline.phase_totals import PhaseTotals
from . import device_energy
from .base import RunAnalysis, bounds_of
from .statistics_source import load_statistics
from .summary_file import LoggedSums, NodeSummary, read_summary


class AnalysisFromSummary(RunAnalysis):
    """The analysis of a whole run. Made by :meth:`open`."""

    def __init__(self, reader: RunReader, nodes: Sequence[tuple[list[Source], NodeSummary]]):
        self._nodes = [node for _, node in nodes]
        self._known: dict[str, Statistics | None] = {}
        self.on_device: dict[int, PhaseTotals] = {
            phases.rank: phases for node in self._nodes for phases in node.on_device
        }
        super().__init__(
            reader,
            bounds_of(reader),
            [
                device_energy.MeterReadings(source, node.meters[source.id])
                for sources, node in nodes
                for source in sources
            ],
        )

    @classmethod
    def open(cls, reader: RunReader) -> AnalysisFromSummary | None:
        """The analysis; None if the recorder did not sum up all of the run."""
        nodes = []
        for folder in reader.nodes():
            node = read_summary(reader.path, folder.name[5:], reader.made_again.add)
            sources = read_sources(folder)
            if node is None or any(source.id not in node.meters for source in sources):
                return None
            nodes.append((sources, node))
        ranks = {phases.rank for _, node in nodes for phases in node.phase_totals}
        if not nodes or (ranks != set(reader.ranks()) and not reader.is_group):
            return None
        analysis = cls(reader, nodes)
        return (
            analysis
            if all(analysis._is_complete(meter.source) for meter in analysis.meters)
            else None
        )

    def _is_complete(self, source: Source) -> bool:
        """True if everything is known of a meter whose phases are one rank's."""
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
    def phase_totals(self) -> Sequence[PhaseTotals]:
        """The phase totals of every rank that recorded edges; a group has its trainings' apart."""
        if self.reader.is_group:
            return []
        return sorted((t for node in self._nodes for t in node.phase_totals), key=lambda t: t.rank)

    def totals_on_device(self) -> Sequence[PhaseTotals]:
        """Of every rank, on its device's clock where that was recorded."""
        return [self.on_device.get(phases.rank, phases) for phases in self.phase_totals]

    def values(self) -> dict[str, LoggedValue]:
        """What the ranks logged: name → count, last, sum."""
        merged: dict[str, LoggedValue] = {}
        steps = {totals.rank: totals.steps for node in self._nodes for totals in node.phase_totals}
        for rank, logged in sorted(
            (rank, by_name) for node in self._nodes for rank, by_name in node.values.items()
        ):
            first = not merged
            values = with_loaded_samples(
                dict(_logged_values(logged)), lambda value: value.count, steps.get(rank, 0)
            )
            for name, value in values.items():
                if first or (name in COUNTS and name not in merged):
                    merged[name] = value
                elif name in COUNTS:
                    merged[name] = added(merged[name], value)
        return merged

    def reductions(self) -> Mapping[int, ReductionSums]:
        """By rank, what reducing gradients cost it."""
        return {rank: sums for node in self._nodes for rank, sums in node.reductions.items()}

    def memory(self) -> Sequence[PhaseLevels]:
        """What the ranks held of memory in each phase."""
        return [levels for node in self._nodes for levels in node.memory]

    def _totals_on(self, source: Source, rank: int) -> PhaseTotals:
        if source.is_accelerator and rank in self.on_device:
            return self.on_device[rank]
        return next(phases for phases in self.phase_totals if phases.rank == rank)

    def _shares(self, device: device_energy.DeviceEnergy, rank: int) -> TimeShares:
        assert device.summary.shares is not None
        return device.summary.shares

    def _statistics(self, source: Source, rank: int) -> Statistics | None:
        if source.id not in self._known:
            rings = next(node.rings[rank] for node in self._nodes if rank in node.rings)
            gpu = source.is_accelerator
            self._known[source.id] = load_statistics(
                self.reader.nodes(),
                source,
                rank,
                rings,
                on_device=gpu and rank in self.on_device,
                damaged=self.reader.made_again.add,
            )
        return self._known[source.id]


def _logged_values(stored: Mapping[str, LoggedSums]) -> Iterator[tuple[str, LoggedValue]]:
    """What a rank logged by name; a value that is not finite is left out."""
    for name, value in stored.items():
        last = value["last"]
        if last is not None:
            yield name, LoggedValue(count=value["count"], last=last, sum=value["sum"])


def added(first: LoggedValue, second: LoggedValue) -> LoggedValue:
    """Counts of two ranks, or of two hosts, together."""
    sums = [counts.sum for counts in (first, second) if counts.sum is not None]
    return LoggedValue(
        count=first.count + second.count, last=first.last, sum=sum(sums) if sums else None
    )
