"""The trainings below one `probe run`, opened together: whose time a meter's joules belong to.

The meters are the group's, read once, and one curve of each meter serves the group and all of its
trainings, so their energies add up to the group's exactly. A meter that several trainings used at a
time is shared: what it measured in their time is stated apart from what each training used alone,
and is attributed to no phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ..attribution.regression.statistics import Statistics
from ..model import Provenance, Source
from ..report.group_model import SharedTime, TimeOutside
from ..report.serialization import to_dict
from ..store.layout import SEATS, training_dir
from ..store.members import read_members
from ..store.reader import RunReader, Series
from ..store.run_fields import RunFields
from ..store.thinned import thinned_until_ns
from ..store.trainings import numbers
from ..timeline.phase_totals import PhaseTotals
from . import device_energy
from .base import RunAnalysis, bounds_of
from .carbon_and_price import Tariffs
from .device_owner import ranks_of
from .from_samples import MOST_BYTES, AnalysisFromSamples, part_of, sample_bytes
from .totals import totals

Interval = tuple[int, int]
_MARGIN_NS = 10_000_000_000  # of samples around a training, for the updates at its ends


@dataclass(frozen=True, slots=True)
class Split:
    """Where the joules of one meter went: alone in one training, in several at a time, in none."""

    source: Source
    alone_j: dict[int, float]  # by training
    shared: frozenset[int]  # trainings that others used the device with
    shared_j: float
    rest_j: float


class GroupAnalysis:
    """A group opened for its report. Raises StoreError if it cannot be read."""

    def __init__(self, path: Path):
        self.path = path
        self.reader = RunReader(path)
        self.readers = {n: RunReader(training_dir(path, n)) for n in numbers(path)}
        self.analysis = AnalysisFromSamples(self.reader)
        _note_thinned(self.analysis)
        self.time_ns: dict[int, Interval] = {n: bounds_of(r) for n, r in self.readers.items()}

    @cached_property
    def users(self) -> dict[str, set[int]]:
        """By source, the trainings that use its device."""
        sources = [meter.source for meter in self.analysis.meters]
        members = read_members(self.path)
        return {
            source.id: {seat // SEATS + 1 for seat in ranks_of(source, sources, members)}
            & self.readers.keys()
            for source in sources
        }

    def shared_by(self, source: Source) -> frozenset[int]:
        """The trainings that used a source's device while another one did."""
        using = sorted((self.time_ns[n], n) for n in self.users[source.id])
        shared: set[int] = set()
        until_ns, last = 0, 0
        for (begin_ns, end_ns), number in using:
            if last and begin_ns < until_ns:
                shared |= {last, number}
            if end_ns > until_ns:
                until_ns, last = end_ns, number
        return frozenset(shared)

    def split(self, device: device_energy.DeviceEnergy) -> Split:
        """Where a device's joules went."""
        curve, source = device.curve, device.source
        assert curve is not None
        shared = self.shared_by(source)
        alone = {
            number: device_energy.energy_of(curve, self.time_ns[number])
            for number in sorted(self.users[source.id] - shared)
        }
        used = _union(self.time_ns[number] for number in self.users[source.id])
        together = _union(self.time_ns[number] for number in shared)
        return Split(
            source,
            alone,
            shared,
            sum(device_energy.energy_of(curve, piece) for piece in together),
            sum(
                device_energy.energy_of(curve, piece) for piece in _between(used, self.analysis.run)
            ),
        )

    @cached_property
    def splits(self) -> list[Split]:
        """Of the meters that count, and of what is modelled."""
        return [
            self.split(device)
            for device in self.analysis.devices
            if device.curve is not None
            and (device.source.in_total or device.source.provenance is Provenance.MODELLED)
        ]

    def shared(self) -> SharedTime:
        """What several trainings used at a time, in J: counted once, and in no training."""
        energy_j, modelled_j = _summed(
            [(split, split.shared_j) for split in self.splits if split.shared]
        )
        sharing: set[int] = set()
        for split in self.splits:
            sharing |= split.shared
        overlap = _union(self.time_ns[number] for number in sharing)
        return SharedTime(
            energy_j=energy_j,
            modelled_energy_j=modelled_j,
            trainings=tuple(sorted(sharing)),
            duration_s=sum(end - begin for begin, end in overlap) / 1e9,
        )

    def rest(self) -> TimeOutside:
        """What was used in no training's time, in J: the start of Python, what is in between."""
        energy_j, modelled_j = _summed([(split, split.rest_j) for split in self.splits])
        outside = _between(_union(self.time_ns.values()), self.analysis.run)
        return TimeOutside(
            energy_j=energy_j,
            modelled_energy_j=modelled_j,
            duration_s=sum(end - begin for begin, end in outside) / 1e9,
        )

    def training_shares(self, number: int) -> bool:
        """Whether a meter that counts, or where none does a model, is shared by a training."""
        counted = [split for split in self.splits if split.source.in_total] or self.splits
        return any(number in split.shared for split in counted)

    def training(self, number: int, part_s: tuple[float, float] | None = None) -> TrainingAnalysis:
        """The analysis of one training. Raises UsageError if ``part_s`` is no part of it."""
        return TrainingAnalysis(self, number, part_s)


class TrainingAnalysis(AnalysisFromSamples):
    """The analysis of one training of a group, over the group's meters."""

    def __init__(
        self, group: GroupAnalysis, number: int, part_s: tuple[float, float] | None = None
    ):
        reader = group.readers[number]
        bounds = bounds_of(reader)
        meters = [
            meter
            for meter in group.analysis.meters
            if number in group.users[meter.source.id] or not meter.source.is_accelerator
        ]
        self.shared = frozenset(
            meter.source.id for meter in meters if number in group.shared_by(meter.source)
        )
        self._recompute = True  # a recorder of several ranks leaves no statistics of one
        names = {meter.source.id for meter in meters}
        self.series = [_cut(s, bounds) for s in group.analysis.series if s.source.id in names]
        RunAnalysis.__init__(
            self,
            reader,
            bounds if part_s is None else part_of(bounds, *part_s),
            [
                device_energy.MeterReadings(self._counted(meter.source), meter.summary)
                for meter in meters
            ],
        )
        _note_thinned(self)
        self._read_timelines(cut=True)  # a process is known to begin up to a tick before its run

    def _counted(self, source: Source) -> Source:
        return replace(source, in_total=False) if source.id in self.shared else source

    def _statistics(self, source: Source, rank: int) -> Statistics | None:
        """None if the meter was not read twice in the training's time."""
        read = next(len(s.time_ns) for s in self.series if s.source.id == source.id)
        return super()._statistics(source, rank) if read > 1 else None

    def owner_of(self, source: Source) -> PhaseTotals | None:
        """A shared device has no owner: its energy goes to no training's phases."""
        return None if source.id in self.shared else super().owner_of(source)


@dataclass(frozen=True, slots=True)
class GroupGlance:
    """What run.json keeps of a group, and of each of its trainings by number."""

    of_group: RunFields
    trainings: dict[int, RunFields]


def glance_at_group(path: Path) -> GroupGlance:
    """What a list of runs shows of a group, and by number of each of its trainings.

    Nothing for a long run: all of its samples would have to be read.

    Raises:
        StoreError: it cannot be read.
    """
    if sample_bytes(RunReader(path)) > MOST_BYTES:
        return GroupGlance({}, {})
    group = GroupAnalysis(path)
    trainings: dict[int, RunFields] = {}
    for number in group.readers:
        analysis = group.training(number)
        logged = analysis.values()
        trainings[number] = {
            "total": to_dict(totals(analysis, Tariffs())[0]),
            "shared": group.training_shares(number),
            "logged": {name: logged[name].sum for name in ("samples", "tokens") if name in logged},
        }
    of_group: RunFields = {
        "total": to_dict(totals(group.analysis, Tariffs())[0]),
        "shared": to_dict(group.shared()),
        "rest": to_dict(group.rest()),
    }
    return GroupGlance(of_group, trainings)


def _note_thinned(analysis: RunAnalysis) -> None:
    """Let the report say so if raw data of its time are not all there any more."""
    until_ns = thinned_until_ns(analysis.reader)
    if until_ns is not None and analysis.run[0] < until_ns:
        analysis.thinned_until_ns = until_ns


def _summed(parts: Sequence[tuple[Split, float]]) -> tuple[float | None, float | None]:
    """(measured, modelled) joules; None where no meter says any."""
    measured: float | None = None
    modelled: float | None = None
    for split, joules in parts:
        if split.source.provenance is Provenance.MODELLED:
            modelled = (modelled or 0.0) + joules
        else:
            measured = (measured or 0.0) + joules
    return measured, modelled


def _cut(series: Series, run: Interval) -> Series:
    first, after = np.searchsorted(
        series.time_ns, [run[0] - _MARGIN_NS, run[1] + _MARGIN_NS]
    ).tolist()
    inside = slice(first, after)
    return replace(
        series,
        time_ns=series.time_ns[inside],
        value=series.value[inside],
        span_ns=series.span_ns[inside],
    )


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    """Disjoint intervals that cover the same time, in order."""
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def _between(covered: Sequence[Interval], run: Interval) -> list[Interval]:
    """What disjoint intervals leave of ``run``; they may lie over its ends."""
    edges = [run[0], *(at for interval in covered for at in interval), run[1]]
    return list(zip(edges[::2], edges[1::2], strict=True))
