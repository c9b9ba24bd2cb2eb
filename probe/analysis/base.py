"""A stored run, opened for its analysis: phases, meters, and whose phases each meter explains.

What a report needs comes either from what the recorder summed up at the end of the run
(:mod:`from_summary`), in seconds however long the run, or from all samples and edges
(:mod:`from_samples`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from ..attribution.meter_kinds import is_attributed, is_energy, is_sampled_power
from ..attribution.regression.statistics import Statistics
from ..attribution.time_split import TimeShares
from ..model import Source
from ..report.model import LoggedValue
from ..store.reader import RunReader
from ..timeline.ddp_reductions import ReductionSums
from ..timeline.phase_levels import PhaseLevels
from ..timeline.phase_totals import PhaseTotals
from . import device_energy
from .device_owner import owner
from .faults import Faults
from .meter_choice import elect, finer
from .phase_rows import PhaseRows, phase_rows

_BY_TIME = "its attribution failed: phases share its energy by time, within hard bounds"


class RunAnalysis(ABC):
    """A run opened for its report: its meters, its phases and what ties them.

    ``run`` is its begin and end in ns, or those of the part that is looked at; ``on_device`` are
    the ranks that recorded device times.
    """

    whole: tuple[int, int]
    on_device: Collection[int] = ()
    thinned_until_ns: int | None = None  # raw data before that are not all there any more
    is_from_raw_data = False  # all of it
    recompute_refused = False
    # Ids of sources that other trainings used at the same time: their energy is the group's.
    shared: frozenset[str] = frozenset()

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
        """The phase totals of every rank that recorded edges, on the host's clock."""

    @abstractmethod
    def totals_on_device(self) -> Sequence[PhaseTotals]:
        """The phase totals of every rank, on its device's clock where that was recorded."""

    @abstractmethod
    def values(self) -> dict[str, LoggedValue]:
        """What the ranks logged: name → count, last, sum. Counts are of all ranks."""

    @abstractmethod
    def reductions(self) -> Mapping[int, ReductionSums]:
        """By rank, what reducing gradients cost it, as :meth:`DdpReductions.state`."""

    @abstractmethod
    def memory(self) -> Sequence[PhaseLevels]:
        """What the ranks held of memory in each phase; empty where it was not recorded."""

    @abstractmethod
    def _totals_on(self, source: Source, rank: int) -> PhaseTotals:
        """A rank's phase totals on the clock on which a source's energy is attributed."""

    @abstractmethod
    def _shares(self, device: device_energy.DeviceEnergy, rank: int) -> TimeShares:
        """How a rank's phases share a device's energy by time."""

    @abstractmethod
    def _statistics(self, source: Source, rank: int) -> Statistics | None:
        """The estimator's statistics of an attributed source and a rank's phases."""

    @cached_property
    def faults(self) -> Faults:
        """What failed in the analysis of single meters."""
        return Faults()

    @cached_property
    def devices(self) -> list[device_energy.DeviceEnergy]:
        """The energy meters of the devices, measured ones first."""
        return device_energy.devices(self.meters)

    def owner_of(self, source: Source) -> PhaseTotals | None:
        """The phase totals of the one rank whose phases a device's meter explains.

        They lie on a GPU's own clock if that is known; None if the device is no one rank's, or if
        several threads of that rank trained at the same time.
        """
        meters = [meter.source for meter in self.meters]
        ranks = [phases.rank for phases in self.phase_totals]
        rank = owner(source, meters, self.reader.members, ranks)
        totals = None if rank is None else self._totals_on(source, rank)
        return None if totals is None or totals.in_threads else totals

    def rows_of(self, device: device_energy.DeviceEnergy) -> tuple[PhaseRows, PhaseTotals | None]:
        """(energy by phase, totals of the rank whose phases they are)."""
        totals = self.owner_of(device.source)
        shares = self.faults.attempt(
            device.source, "its energy has no phases", lambda: self.shares_of(device, totals)
        )
        statistics = self.energy_statistics(device, totals)

        def rows(statistics: Statistics | None) -> PhaseRows:
            return phase_rows(device, totals, self.run, device.name, shares, statistics)

        attributed = self.faults.attempt(device.source, _BY_TIME, lambda: rows(statistics))
        return attributed or rows(None), totals

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
        """The statistics that tell a device's phases apart, scaled to its energy."""
        if device.curve is None:
            return None
        own = self.statistics_of(device.source, totals)
        curve = device.curve
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
        others = self.statistics_of(samples, totals)
        finest = self.faults.attempt(
            samples, "not used", lambda: finer(curve, self.whole[0], own, others)
        )
        return finest or own

    def statistics_of(self, source: Source, totals: PhaseTotals | None) -> Statistics | None:
        """The estimator's statistics of a source, as the recorder left them or anew from raw data.

        None if the source is not attributed to phases, or too little was read.
        """
        if totals is None or not totals.seconds or not is_attributed(source):
            return None
        samples = next(m.summary.samples for m in self.meters if m.source.id == source.id)
        if samples < 2:
            return None
        return self.faults.attempt(source, _BY_TIME, lambda: self._statistics(source, totals.rank))


def bounds_of(reader: RunReader) -> tuple[int, int]:
    """Begin and end of a run, in ns."""
    return reader.begin_ns, max(reader.end_ns(), reader.begin_ns + 1)
