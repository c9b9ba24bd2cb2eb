"""A run of a comparison: how far and how good it was; and the :class:`Trial` that comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median_low

import numpy as np

from ..instrument.roofline import NOT_SEPARATED
from ..model import RunStatus
from ..report.model import JsonValue
from ..store.members import Member
from ..store.reader import RunReader
from ..store.thinned import thinned_until_ns
from ..target import Target
from .progress import Logged, Quality, Work
from .read_energy import Measured
from .run_record import EARLY, LATE, NO_MFU, Setting, Trial

MARK = 1 / 3
MARKS = (1 / 4, MARK, 1 / 2)
_UNKNOWN = (None, "", "unknown")


class Recording:
    """A run as it was logged, before it is known where its stages end."""

    def __init__(self, path: Path):
        """Raises StoreError if it cannot be read."""
        self._path = path
        reader = RunReader(path)
        self.meta, self.id, self.status = reader.meta, reader.id, reader.status
        self.is_thinned = thinned_until_ns(reader) is not None
        self.begin_ns = reader.begin_ns
        self.end_ns = max(reader.end_ns(), self.begin_ns + 1)
        self.ranks = reader.ranks()
        first = self.ranks[0] if self.ranks else 0
        self.logged = reader.logged()
        self.work = Work.of(self.begin_ns, self.logged, reader.steps_ns(first))
        self._counted = _agreed(
            [_bound(member.info.get("roofline")) for member in reader.members if _is_rank(member)]
        )
        self._uncounted = _noted(reader.members, NOT_SEPARATED)
        self._no_mfu = _noted(reader.members, NO_MFU)
        self._hashes = {
            str(digest)
            for member in reader.members
            if _is_rank(member) and (digest := member.info.get("model_hash")) not in _UNKNOWN
        }

    @property
    def name(self) -> str:
        """The name that the user gave the run."""
        return str(self.meta.get("name") or "")

    @property
    def simulated(self) -> bool:
        """True if its card does not exist (`probe demo`)."""
        return bool(self.meta.get("simulated"))

    @property
    def finished(self) -> bool:
        """True if the run ended as it should."""
        return self.status is RunStatus.FINISHED

    @property
    def target(self) -> str | None:
        """The target that the run was given."""
        return self.meta.get("target") or None

    def quality(self, metric: str, higher: bool) -> Quality | None:
        """A metric that the run logged, against samples."""
        return Quality.of(metric, higher, self.logged, self.work)

    def samples_to(self, target: Target) -> float | None:
        """Samples that the run needed to reach a target; None if it missed it."""
        quality = self.quality(target.metric, target.higher)
        return None if quality is None else quality.reaches(target.value, confirmed=True)

    def trial(
        self,
        target: Target | None,
        judged: tuple[str, bool] | None,
        marks: Mapping[float, float | None],
    ) -> Trial:
        """What it used until the target, or until its end. Reads all samples and edges.

        Args:
            judged: the metric that tells its quality, and whether higher is better.
            marks: share of the base's samples → the quality there, which ends the early stage;
                None: the same share of this run's own samples does.
        """
        needed = self.samples_to(target) if target is not None else None
        samples = self.work.all if needed is None else needed
        end_ns = self.end_ns if needed is None else self.work.when(needed)
        quality = self.quality(*judged) if judged is not None else None
        ends = {
            share: min(_mark(share, value, quality, samples), samples)
            for share, value in marks.items()
        }
        early_ns = max(self.begin_ns, min(self.work.when(ends[MARK]), end_ns))
        config = self.meta.get("config") or {}
        block = config.get("block", config.get("seed"))
        measured = Measured(self._path)
        limited = measured.limited()
        return Trial(
            id=self.id,
            name=self.name,
            stages={
                EARLY: measured.stage(self.begin_ns, early_ns, ends[MARK]),
                LATE: measured.stage(early_ns, end_ns, samples - ends[MARK]),
            },
            block=None if block is None else str(block),
            reached=None if target is None else needed is not None,
            stopped=quality is not None and target is not None and quality.stopped_at(target),
            quality=None if quality is None else quality.last,
            energy=measured.provenance,
            meters=measured.meters(),
            meter_error=measured.meter_error(end_ns),
            early={
                share: measured.until(self.work.when(at))
                for share, at in ends.items()
                if share != MARK
            },
            memory=measured.memory(),
            held=measured.held(),
            bound_share=(_bound(config.get("roofline")) or self._counted) | limited,
            measured_bound=frozenset(limited),
            uncounted=self._uncounted,
            no_mfu=self._no_mfu,
            whole=measured.stage(self.begin_ns, end_ns, samples),
            is_like=self._likeness(measured.models),
            unit=self.work.unit,
            ranks=max(1, len(self.ranks)),
            settings=_settings(config),
            techniques=_techniques(config.get("techniques")),
            g_per_kwh=(self.meta.get("carbon") or {}).get("g_per_kwh"),
            last=_last(self.logged),
        )

    def _likeness(self, models: Sequence[str]) -> dict[str, Setting]:
        """What must agree for runs to be comparable; what is unknown is left out."""
        machine = (self.meta.get("machine") or {}).get("cpu_model")
        facts = {
            "model": min(self._hashes)[:12] if len(self._hashes) == 1 else None,
            "data": self.meta.get("data"),
            "target": self.target,
            "hardware": " + ".join([*models, *([str(machine)] if machine not in _UNKNOWN else [])]),
            "samples": (self.meta.get("config") or {}).get("samples"),
            "unit": self.work.unit,
        }
        return {
            name: value
            for name, value in facts.items()
            if isinstance(value, str | int | float) and value not in _UNKNOWN
        }


def median_run(recordings: Sequence[Recording], target: Target | None) -> Recording:
    """The one that needed the median number of samples (the lower of two)."""
    needed = {
        run.id: (run.samples_to(target) if target else None) or run.work.all for run in recordings
    }
    middle = median_low(needed.values())
    return next(run for run in recordings if needed[run.id] == middle)


def _mark(share: float, value: float | None, quality: Quality | None, samples: float) -> float:
    """Samples at which the early stage ends; all, if the quality is never reached."""
    if value is None or quality is None:
        return share * samples
    reached = quality.reaches(value)
    return samples if reached is None else reached


def _last(logged: Logged) -> dict[str, float]:
    finite = {name: values[np.isfinite(values)] for name, (_, values) in logged.items()}
    return {name: float(values[-1]) for name, values in finite.items() if len(values)}


def _is_rank(member: Member) -> bool:
    return member.role == "rank"


def _noted(members: Sequence[Member], begin: str) -> str:
    """The reason in the first note of a rank that begins so; empty without one."""
    lines = [str(line) for member in members for line in member.info.get("warnings") or ()]
    notes = [line for line in lines if line.startswith(begin)]
    return notes[0].removeprefix(begin).lstrip(": ") if notes else ""


def _agreed(counts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Phase → mean over ranks, of the phases that every rank counted."""
    phases = set.intersection(*map(set, counts)) if counts else set()
    return {phase: fmean(count[phase] for count in counts) for phase in sorted(phases)}


def _techniques(stack: JsonValue) -> dict[str, str]:
    """Technique → its settings, of what :class:`optimizers.Trainer` stores with a run."""
    entries = [each for each in stack if isinstance(each, dict)] if isinstance(stack, list) else []
    return {
        str(each["technique"]): str(each.get("settings") or "")
        for each in entries
        if each.get("technique")
    }


def _settings(config: Mapping[str, JsonValue]) -> dict[str, Setting]:
    """What a reader of a table must know: no lists, no counts of operations."""
    return {
        name: value
        for name, value in config.items()
        if isinstance(value, str | int | float) and name not in ("seed", "block")
    }


def _bound(roofline: JsonValue) -> dict[str, float]:
    """Phase → memory-bound part, as the run's config tells it."""
    shares = roofline.get("memory_bound") if isinstance(roofline, dict) else None
    if not isinstance(shares, dict):
        return {}
    return {
        str(phase): float(share)
        for phase, share in shares.items()
        if isinstance(share, int | float) and 0 <= share <= 1
    }
