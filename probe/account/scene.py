"""A stored run, opened for its account: spans, meters, and whose phases each meter explains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..attribution.meters import is_attributed, is_energy, is_sampled_power
from ..attribution.statistics import Statistics
from ..errors import UsageError
from ..model import RESTARTED, Gap, Source
from ..store.reader import RunReader, Series
from ..units import NS_PER_S
from . import energy
from .election import elect, finer
from .owners import owner
from .replay import replay, sealed
from .timeline import Timeline, timeline


@dataclass(frozen=True)
class Scene:
    """What all parts of a report look at.

    ``run`` is its begin and end, or those of the part that is looked at; ``on_device`` has the
    timelines of those ranks that recorded device times.
    """

    reader: RunReader
    recompute: bool
    whole: tuple[int, int]
    run: tuple[int, int]
    timelines: tuple[Timeline, ...]
    on_device: dict[int, Timeline]
    series: tuple[Series, ...]
    gaps: tuple[Gap, ...]

    @classmethod
    def open(
        cls, path: Path, *, recompute: bool = False, part_s: tuple[float, float] | None = None
    ) -> Scene:
        """Read a run, or the part between these seconds of it.

        Raises:
            UsageError: that is no part of the run.
            StoreError, StoreVersionError: it cannot be read.
        """
        reader = RunReader(path)
        whole = run = reader.begin_ns, max(reader.end_ns(), reader.begin_ns + 1)
        if part_s is not None:
            run = _part(whole, *part_s)
        ranks, gaps = reader.ranks(), tuple(reader.gaps())
        host = [timeline(reader, rank) for rank in ranks]
        device = [timeline(reader, rank, device=True) for rank in ranks]
        return cls(
            reader, recompute, whole, run,
            tuple(t if run == whole else t.part(*run) for t in host if t is not None),
            {t.rank: t if run == whole else t.part(*run) for t in device if t is not None},
            elect(reader.series(), gaps), gaps,
        )

    @cached_property
    def devices(self) -> list[energy.Device]:
        """The energy meters, measured ones first."""
        return energy.devices(self.series, self.gaps)

    def owner_of(self, source: Source) -> Timeline | None:
        """The one rank's phases that a device's meter explains; on a GPU's own clock if known."""
        meters = [one.source for one in self.series]
        mine = owner(source, meters, self.reader.members, self.timelines)
        if mine is not None and source.device.startswith("gpu"):
            return self.on_device.get(mine.rank, mine)
        return mine

    def energy_statistics(self, device: energy.Device, mine: Timeline | None) -> Statistics | None:
        """What tells a device's phases apart; scaled to its energy."""
        if device.curve is None:
            return None
        own = self.statistics_of(device.series, mine)
        if not is_energy(device.series.source):
            return own
        samples = next((s for s in self.series if is_sampled_power(s.source)
                        and s.source.uuid == device.series.source.uuid), None)
        if samples is None:
            return own
        return finer(device.curve, self.whole[0], own, self.statistics_of(samples, mine))

    def statistics_of(self, series: Series, mine: Timeline | None) -> Statistics | None:
        """The estimator's, as the recorder sealed them or anew from raw data; None if the source
        is none that is attributed, or too little was read. Of a part of the run they hold the
        blocks inside it: 1/64 to 1/32 of the run is as close as they come to its ends.
        """
        source = series.source
        if mine is None or not len(mine.begin_ns) or len(series.time_ns) < 2:
            return None
        if not is_attributed(source):
            return None
        found = self._sealed(source, mine.rank)
        if found is None:
            restarts = [gap.end_ns for gap in self.gaps
                        if gap.what == source.id and gap.reason == RESTARTED]
            return replay(series, mine, self.run, self.whole[0], restarts)
        if self.run == self.whole:
            return found
        return found.between(*((at - self.whole[0]) / NS_PER_S for at in self.run))

    def _sealed(self, source: Source, rank: int) -> Statistics | None:
        if rank in self.on_device or self.recompute:
            return None
        return sealed(self.reader.path, source, rank, self._rings[rank])

    @cached_property
    def _rings(self) -> dict[int, list[str]]:
        """Names per rank; to list them is to read them, which once for all meters is enough."""
        return {rank: [name for name, _ in self.reader.rings(rank)]
                for rank in self.reader.ranks()}


def _part(whole: tuple[int, int], from_s: float, to_s: float) -> tuple[int, int]:
    begin, end = (whole[0] + round(s * NS_PER_S) for s in (from_s, min(to_s, 1e9)))
    if not whole[0] <= begin < min(end, whole[1]):
        raise UsageError(f"{from_s:g} s to {to_s:g} s is no part of a run of "
                         f"{(whole[1] - whole[0]) / NS_PER_S:.1f} s")
    return begin, min(end, whole[1])
