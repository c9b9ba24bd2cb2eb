"""From the store to a :class:`Trial`: where a run's stages lie, and what its phases used there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np

from ..account import energy
from ..account.rates import rates
from ..account.raw import RawScene
from ..model import Phase, Provenance, RunStatus, Status
from ..store.reader import RunReader
from ..target import Target
from .classes import limited
from .progress import Floats, Quality, Work
from .trial import EARLY, LATE, Joint, Stage, Trial, Use

MARK = 1 / 3
MARKS = (1 / 4, MARK, 1 / 2)
_MEMORY = "memory_"  # `memory_weights_bytes` and so on, as the trainer logs them
_UNKNOWN = (None, "", "unknown")


class Recording:
    """A run that was read whole, before anybody says where its stages end."""

    def __init__(self, path: Path):
        """Raises StoreError if it cannot be read."""
        self._scene = RawScene(RunReader(path))
        self.reader = self._scene.reader
        ranks = [tally.rank for tally in self._scene.tallies]
        self.logged = self.reader.values(ranks[0]) if ranks else {}
        steps = self._scene.steps_ns(ranks[0]) if ranks else np.zeros(0, np.int64)
        self.begin_ns, self.end_ns = self._scene.run
        self.work = Work.of(self.begin_ns, self.logged, steps)

    @property
    def id(self) -> str:
        """The run's."""
        return self.reader.id

    @property
    def name(self) -> str:
        """As the user called it."""
        return str(self.reader.meta.get("name") or "")

    @property
    def finished(self) -> bool:
        """Whether it ended as it should."""
        return self.reader.status is RunStatus.FINISHED

    @property
    def target(self) -> str | None:
        """That it was given."""
        return self.reader.meta.get("target") or None

    def quality(self, metric: str, higher: bool) -> Quality | None:
        """A metric that it logged."""
        return Quality.of(metric, higher, self.logged, self.work)

    def samples_to(self, target: Target) -> float | None:
        """None if it missed it."""
        quality = self.quality(target.metric, target.higher)
        return None if quality is None else quality.reaches(target.value, confirmed=True)

    def trial(
        self, target: Target | None, judged: tuple[str, bool] | None,
        marks: Mapping[float, float | None],
    ) -> Trial:
        """What it used until the target, or until its end.

        Args:
            judged: the metric that tells its quality, and whether higher is better.
            marks: share of the base's samples → the quality there, which ends the early stage;
                None: the same share of this run's own samples does.
        """
        needed = self.samples_to(target) if target is not None else None
        reached = None if target is None else needed is not None
        samples = self.work.all if needed is None else needed
        end_ns = self.end_ns if needed is None else self.work.when(needed)
        quality = self.quality(*judged) if judged is not None else None
        ends = {share: min(self._mark(share, value, quality, samples), samples)
                for share, value in marks.items()}
        early_ns = max(self.begin_ns, min(self.work.when(ends[MARK]), end_ns))
        energy_of = self._provenance()
        stages = {
            EARLY: self._stage(self.begin_ns, early_ns, ends[MARK], energy_of),
            LATE: self._stage(early_ns, end_ns, samples - ends[MARK], energy_of),
        }
        config = self.reader.meta.get("config") or {}
        block = config.get("block", config.get("seed"))
        return Trial(
            id=self.id, name=self.name, stages=stages, reached=reached,
            block=None if block is None else str(block),
            stopped=quality is not None and target is not None and quality.stopped_at(target),
            quality=None if quality is None else quality.last, energy=energy_of,
            energy_half_j=self._half(end_ns, energy_of), meters=self._meters(energy_of),
            early={share: self._until(self.work.when(at), energy_of)
                   for share, at in ends.items() if share != MARK},
            memory=self._memory(),
            bound_share=_bound(config.get("roofline")) | limited(rates(self._scene)),
            is_like=self.likeness(), unit=self.work.unit,
            ranks=max(1, len(self.reader.ranks())), settings=_settings(config),
            g_per_kwh=(self.reader.meta.get("carbon") or {}).get("g_per_kwh"),
        )

    def likeness(self) -> dict[str, Any]:
        """What must agree for runs to be comparable; what is unknown is left out."""
        meta = self.reader.meta
        hashes = {str(found) for member in self.reader.members if member.role == "rank"
                  and (found := member.info.get("model_hash")) not in _UNKNOWN}
        models = sorted({d.source.model for d in self._scene.devices
                         if d.source.in_total and d.source.model})
        machine = (meta.get("machine") or {}).get("cpu_model")
        hardware = " + ".join([*models, *([machine] if machine not in _UNKNOWN else [])])
        told = {
            "model": min(hashes)[:12] if len(hashes) == 1 else None,
            "data": meta.get("data"), "target": self.target, "hardware": hardware,
            "samples": (meta.get("config") or {}).get("samples"), "unit": self.work.unit,
        }
        return {name: value for name, value in told.items() if value not in _UNKNOWN}

    # -- parts -----------------------------------------------------------------------

    @staticmethod
    def _mark(share: float, value: float | None, quality: Quality | None, samples: float) -> float:
        """Samples at which the early stage ends; all, if the quality is never reached."""
        if value is None or quality is None:
            return share * samples
        found = quality.reaches(value)
        return samples if found is None else found

    def _devices(self, kind: Provenance | None) -> list[energy.Device]:
        return [device for device in self._scene.devices if device.curve is not None and (
            device.source.in_total if kind is Provenance.MEASURED
            else device.source.provenance is kind)]

    def _provenance(self) -> Provenance | None:
        for kind in (Provenance.MEASURED, Provenance.MODELLED):
            if self._devices(kind):
                return kind
        return None

    def _meters(self, kind: Provenance | None) -> frozenset[str]:
        host = self.reader.meta.get("host", "")
        return frozenset(device.source.uuid or f"{host} {device.source.id}"
                         for device in self._devices(kind))

    def _stage(
        self, begin_ns: int, end_ns: int, samples: float, kind: Provenance | None
    ) -> Stage:
        if end_ns <= begin_ns:
            return Stage(max(0.0, samples), {})
        scene = self._scene.part(begin_ns, end_ns)
        seconds = _seconds(scene, (end_ns - begin_ns) / 1e9)
        joules: dict[str, float] = {}
        refused: set[str] = set()
        weak: set[str] = set()
        joint, low, high = 0.0, 0.0, 0.0
        for device in self._devices(kind):
            rows, mine = scene.rows_of(device)
            for row in rows.phases:
                phase, value = row["phase"], row["energy_j"]
                if value is None:
                    refused.add(phase)
                elif phase == Phase.UNRESOLVED or mine is None:
                    limits = row["energy_j_interval"] or (value, value)
                    joint, low, high = joint + value, low + limits[0], high + limits[1]
                else:
                    joules[phase] = joules.get(phase, 0.0) + value
                    if row["status"] != Status.RESOLVED:
                        weak.add(phase)
        for phase in sorted(refused & joules.keys()):  # told apart on another device only
            value = joules.pop(phase)
            joint, low, high = joint + value, low + value, high + value
        uses = {}
        # Sorted, or sums would depend on the order of a set.
        for phase in sorted(seconds.keys() | joules.keys()):
            known = joules.get(phase)
            status = (Status.NOT_IDENTIFIABLE if known is None
                      else Status.WEAK if phase in weak else Status.RESOLVED)
            uses[phase] = Use(seconds.get(phase, 0.0), known, status)
        return Stage(max(0.0, samples), uses, Joint(joint, low, high))

    def _half(self, end_ns: int, kind: Provenance | None) -> float:
        run = self.begin_ns, max(end_ns, self.begin_ns + 1)
        limits = [energy.total_interval(device, run) for device in self._devices(kind)]
        return math.fsum(high - low for low, high in limits) / 2

    def _until(self, end_ns: int, kind: Provenance | None) -> tuple[float, float | None]:
        run = self.begin_ns, max(end_ns, self.begin_ns + 1)
        joules = [energy.energy_of(device.curve, run) for device in self._devices(kind)
                  if device.curve is not None]
        return (run[1] - run[0]) / 1e9, math.fsum(joules) if joules else None

    def _memory(self) -> dict[str, float]:
        """At the peak of the rank that held most: its allocator's on a GPU, else its process's."""
        found: dict[str, float] = {}
        for rank in self.reader.ranks():
            logged = self.reader.values(rank) | {
                f"allocator_{name}": value for name, value in self.reader.allocator(rank).items()}
            peak = next((float(np.max(logged[name][1])) for name in
                         ("peak_memory_bytes", "allocator_peak") if name in logged), None)
            if peak is not None and peak > found.get("peak", 0.0):
                found = {"peak": peak} | {
                    name.removeprefix(_MEMORY).removesuffix("_bytes"): float(values[-1])
                    for name, (_, values) in logged.items() if name.startswith(_MEMORY)}
        if not found:
            rss = next((one.value for one in self._scene.series
                        if one.source.id == "process:rss" and len(one.value)), None)
            if rss is not None:
                found = {"peak": float(np.max(rss))}
        return found


def median_run(recordings: Sequence[Recording], target: Target | None) -> Recording:
    """The one that needed the median number of samples (the lower of two)."""
    needed = {one.id: (one.samples_to(target) if target else None) or one.work.all
              for one in recordings}
    middle = median_low(needed.values())
    return next(one for one in recordings if needed[one.id] == middle)


def _seconds(scene: RawScene, length_s: float) -> dict[str, float]:
    """Phase → seconds, mean over ranks, the rest of the time as unattributed."""
    tallies = scene.clocked()
    if not tallies:
        return {str(Phase.UNATTRIBUTED): length_s}
    found: dict[str, float] = {}
    for tally in tallies:
        for code, seconds in tally.seconds.items():
            name = tally.name(code)
            found[name] = found.get(name, 0.0) + seconds / len(tallies)
    found[str(Phase.UNATTRIBUTED)] = max(0.0, length_s - sum(found.values()))
    return found


def _settings(config: Any) -> dict[str, Any]:
    """What a reader of a table must know: no lists, no counts of operations."""
    return {name: value for name, value in config.items()
            if isinstance(value, str | int | float) and name not in ("seed", "block")}


def _bound(roofline: Any) -> dict[str, float]:
    """Phase → memory-bound part, as the run's config tells it."""
    told = roofline.get("memory_bound") if isinstance(roofline, dict) else None
    if not isinstance(told, dict):
        return {}
    return {str(phase): float(share) for phase, share in told.items()
            if isinstance(share, int | float) and 0 <= share <= 1}


__all__ = ["MARK", "MARKS", "Floats", "Recording", "median_run"]
