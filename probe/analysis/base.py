"""A stored run, opened for its account: phases, meters, and whose phases each meter explains.

What a report needs comes either from what the recorder summed up and sealed (:mod:`sealed`), in
seconds however long the run, or from all samples and edges (:mod:`raw`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..attribution.meter_kinds import is_attributed, is_energy, is_sampled_power
from ..attribution.regression.statistics import Statistics
from ..attribution.time_split import TimeShares
from ..model import Source
from ..store.reader import RunReader
from ..timeline.phase_totals import PhaseTotals
from . import device_energy
from .device_owner import owner
from .meter_choice import elect, finer
from .phase_rows import PhaseRows, phase_rows


class RunAnalysis(ABC):
    """What all parts of a report look at.

    ``run`` is its begin and end, or those of the part that is looked at; ``on_device`` are the
    ranks that recorded device times.
    """

    whole: tuple[int, int]
    on_device: Collection[int] = ()

    def __init__(
        self, reader: RunReader, run: tuple[int, int], meters: Sequence[device_energy.MeterReadings]
    ):
        self.reader, self.run = reader, run
        self.whole = bounds_of(reader)
        self.gaps = tuple(reader.gaps())
        elected = elect([(meter.source, meter.summary.samples) for meter in meters], self.gaps)
        self.meters = tuple(
            device_energy.MeterReadings(source, meter.summary)
            for source, meter in zip(elected, meters, strict=True)
        )

    @property
    @abstractmethod
    def phase_totals(self) -> Sequence[PhaseTotals]:
        """Of every rank that recorded edges, on the host's clock."""

    @abstractmethod
    def totals_on_device(self) -> Sequence[PhaseTotals]:
        """Of every rank that recorded edges, on its device's clock where that was recorded."""

    @abstractmethod
    def values(self) -> dict[str, dict[str, Any]]:
        """What the ranks logged: name → count, last, sum. Counts are of all ranks."""

    @abstractmethod
    def reductions(self) -> Mapping[int, Mapping[str, Any]]:
        """By rank, what reducing gradients cost it, as :meth:`Reductions.state`."""

    @abstractmethod
    def _totals_on(self, source: Source, rank: int) -> PhaseTotals:
        """Of the clock on which a source's energy is attributed."""

    @abstractmethod
    def _shares(self, device: device_energy.DeviceEnergy, rank: int) -> TimeShares:
        """How a rank's phases share a device's energy by time."""

    @abstractmethod
    def _statistics(self, source: Source, rank: int) -> Statistics | None:
        """The estimator's, of an attributed source and a rank's phases."""

    @cached_property
    def devices(self) -> list[device_energy.DeviceEnergy]:
        """The energy meters, measured ones first."""
        return device_energy.devices(self.meters)

    def owner_of(self, source: Source) -> PhaseTotals | None:
        """The one rank's phases that a device's meter explains; on a GPU's own clock if known."""
        meters = [meter.source for meter in self.meters]
        ranks = [phases.rank for phases in self.phase_totals]
        rank = owner(source, meters, self.reader.members, ranks)
        return None if rank is None else self._totals_on(source, rank)

    def rows_of(self, device: device_energy.DeviceEnergy) -> tuple[PhaseRows, PhaseTotals | None]:
        """Energy by phase, and whose phases they are."""
        totals = self.owner_of(device.source)
        rows = phase_rows(
            device,
            totals,
            self.run,
            device.name,
            self.shares_of(device, totals),
            self.energy_statistics(device, totals),
        )
        return rows, totals

    def shares_of(
        self, device: device_energy.DeviceEnergy, totals: PhaseTotals | None
    ) -> TimeShares | None:
        """How phases share a device's energy by time; None if it has no phases or no energy."""
        if totals is None or not totals.seconds or device.curve is None:
            return None
        return self._shares(device, totals.rank)

    def energy_statistics(
        self, device: device_energy.DeviceEnergy, totals: PhaseTotals | None
    ) -> Statistics | None:
        """What tells a device's phases apart; scaled to its energy."""
        if device.curve is None:
            return None
        own = self.statistics_of(device.source, totals)
        if not is_energy(device.source):
            return own
        samples = next(
            (
                m.source
                for m in self.meters
                if is_sampled_power(m.source) and m.source.uuid == device.source.uuid
            ),
            None,
        )
        if samples is None:
            return own
        return finer(device.curve, self.whole[0], own, self.statistics_of(samples, totals))

    def statistics_of(self, source: Source, totals: PhaseTotals | None) -> Statistics | None:
        """The estimator's, as the recorder sealed them or anew from raw data; None if the source
        is none that is attributed, or too little was read.
        """
        if totals is None or not totals.seconds or not is_attributed(source):
            return None
        samples = next(m.summary.samples for m in self.meters if m.source.id == source.id)
        return self._statistics(source, totals.rank) if samples > 1 else None


def bounds_of(reader: RunReader) -> tuple[int, int]:
    """Begin and end of a run, in ns."""
    return reader.begin_ns, max(reader.end_ns(), reader.begin_ns + 1)
