"""What the meters and the phases of one run say: of all of it, and of its parts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ..analysis import device_energy
from ..analysis.from_samples import AnalysisFromSamples
from ..analysis.open import open_samples
from ..analysis.rates import rates
from ..model import Phase, Provenance, Status
from ..sensors.cards import systematic
from ..store.reader import RunReader
from ..units import NS_PER_S
from .phase_classes import limited
from .run_record import Held, Joint, Stage, Use

_BY_PHASE = ("allocated", "resident")  # the first that a run has tells its memory by phase
_MEMORY = "memory_"  # `memory_weights_bytes` and so on, as the trainer logs them


class Measured:
    """All samples and edges of a run; large, so let go of it soon.

    ``provenance`` is that of its joules: measured, else modelled, else None.
    """

    def __init__(self, path: Path):
        """Raises StoreError if it cannot be read."""
        self._analysis = open_samples(RunReader(path))
        self._reader = self._analysis.reader
        self._begin_ns = self._analysis.run[0]
        self.provenance = next(
            (kind for kind in (Provenance.MEASURED, Provenance.MODELLED) if self._of(kind)), None
        )
        self._devices = self._of(self.provenance)

    def _of(self, kind: Provenance | None) -> list[device_energy.DeviceEnergy]:
        return [
            device
            for device in self._analysis.devices
            if device.curve is not None
            and device.source.id not in self._analysis.shared
            and (
                device.source.in_total
                if kind is Provenance.MEASURED
                else device.source.provenance is kind
            )
        ]

    @property
    def models(self) -> list[str]:
        """Of the devices whose energy counts, as their makers call them."""
        return sorted(
            {
                device.source.model
                for device in self._analysis.devices
                if device.source.in_total and device.source.model
            }
        )

    def meters(self) -> frozenset[str]:
        """The meters that measured its joules."""
        host = self._reader.meta.get("host", "")
        return frozenset(
            device.source.uuid or f"{host} {device.source.id}" for device in self._devices
        )

    def limited(self) -> dict[str, float]:
        """Phase → memory-bound or not, as the devices say."""
        return limited(rates(self._analysis))

    def stage(self, begin_ns: int, end_ns: int, samples: float) -> Stage:
        """What the phases used between two instants."""
        if end_ns <= begin_ns:
            return Stage(max(0.0, samples), {})
        analysis = self._analysis.part(begin_ns, end_ns)
        seconds = _seconds(analysis, (end_ns - begin_ns) / 1e9)
        joules: dict[str, float] = {}
        refused: set[str] = set()
        weak: set[str] = set()
        joint, low, high = 0.0, 0.0, 0.0
        for device in self._devices:
            rows, totals = analysis.rows_of(device)
            for row in rows.phases:
                phase, value = row.phase, row.energy_j
                if value is None:
                    refused.add(phase)
                elif phase == Phase.UNRESOLVED or totals is None:
                    limits = row.energy_j_interval or (value, value)
                    joint, low, high = joint + value, low + limits[0], high + limits[1]
                else:
                    joules[phase] = joules.get(phase, 0.0) + value
                    if row.status != Status.RESOLVED:
                        weak.add(phase)
        for phase in sorted(refused & joules.keys()):  # told apart on another device only
            value = joules.pop(phase)
            joint, low, high = joint + value, low + value, high + value
        uses = {}
        # Sorted, or sums would depend on the order of a set.
        for phase in sorted(seconds.keys() | joules.keys()):
            energy = joules.get(phase)
            status = (
                Status.NOT_IDENTIFIABLE
                if energy is None
                else Status.WEAK
                if phase in weak
                else Status.RESOLVED
            )
            uses[phase] = Use(seconds.get(phase, 0.0), energy, status)
        return Stage(max(0.0, samples), uses, Joint(joint, low, high))

    def meter_error(self, end_ns: int) -> float:
        """How far all that the meters show until then may be off, as a share."""
        run = self._begin_ns, max(end_ns, self._begin_ns + 1)
        off, joules = 0.0, 0.0
        for device in self._devices:
            errors = systematic(device.source)
            if device.curve is not None and errors is not None:
                energy = device_energy.energy_of(device.curve, run)
                off += errors.half_j(energy, (run[1] - run[0]) / NS_PER_S)
                joules += energy
        return off / joules if joules > 0 else 0.0

    def until(self, end_ns: int) -> tuple[float, float | None]:
        """(seconds, joules) from the beginning to an instant."""
        run = self._begin_ns, max(end_ns, self._begin_ns + 1)
        joules = [
            device_energy.energy_of(device.curve, run)
            for device in self._devices
            if device.curve is not None
        ]
        return (run[1] - run[0]) / 1e9, math.fsum(joules) if joules else None

    def memory(self) -> dict[str, float]:
        """At the peak of the rank that held most: its allocator's on a GPU, else its process's."""
        held: dict[str, float] = {}
        for rank in self._reader.ranks():
            logged = self._reader.values(rank) | {
                f"allocator_{name}": value for name, value in self._reader.allocator(rank).items()
            }
            peak = next(
                (
                    float(np.max(logged[name][1]))
                    for name in ("peak_memory_bytes", "allocator_peak")
                    if name in logged
                ),
                None,
            )
            if peak is not None and peak > held.get("peak", 0.0):
                held = {"peak": peak} | {
                    name.removeprefix(_MEMORY).removesuffix("_bytes"): float(values[-1])
                    for name, (_, values) in logged.items()
                    if name.startswith(_MEMORY)
                }
        return held or self._resident()

    def _resident(self) -> dict[str, float]:
        """The peak of the process that held most; of older runs, of the process tree."""
        peaks = [
            level.highest
            for levels in self._analysis.memory()
            if levels.quantity == "resident"
            for level in levels.phases.values()
        ]
        if not peaks:
            peaks = [
                float(np.max(series.value))
                for series in self._analysis.series
                if series.source.id == "process:rss" and len(series.value)
            ]
        return {"peak": float(max(peaks))} if peaks else {}

    def held(self) -> dict[str, Held]:
        """Phase → memory while it ran: of a GPU's allocator, else of the process."""
        by_quantity: dict[str, dict[str, Held]] = {quantity: {} for quantity in _BY_PHASE}
        names = {phases.rank: phases for phases in self._analysis.phase_totals}
        for levels in self._analysis.memory():
            held = by_quantity.get(levels.quantity)
            if held is None or levels.rank not in names:
                continue
            for code, level in levels.phases.items():
                phase = names[levels.rank].name(code)
                if phase not in held or held[phase].peak < level.highest:
                    held[phase] = Held(levels.quantity, level.highest, level.added)
        return next((held for held in by_quantity.values() if held), {})


def _seconds(analysis: AnalysisFromSamples, length_s: float) -> dict[str, float]:
    """Phase → seconds, mean over ranks, the rest of the time as unattributed."""
    phase_totals = analysis.totals_on_device()
    if not phase_totals:
        return {str(Phase.UNATTRIBUTED): length_s}
    by_phase: dict[str, float] = {}
    for phases in phase_totals:
        for code, seconds in phases.seconds.items():
            name = phases.name(code)
            by_phase[name] = by_phase.get(name, 0.0) + seconds / len(phase_totals)
    by_phase[str(Phase.UNATTRIBUTED)] = max(0.0, length_s - sum(by_phase.values()))
    return by_phase
