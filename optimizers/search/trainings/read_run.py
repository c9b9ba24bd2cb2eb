"""What the run of a training says: its cost to the target, what it has spent so far, its joules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from probe.compare import TOLERANCE, compatibility
from probe.compare.groups import Campaign
from probe.compare.read_energy import Measured
from probe.compare.read_run import MARK, Recording
from probe.errors import ProbeError
from probe.model import Provenance
from probe.store.live import read_live
from probe.store.reader import RunReader
from probe.store.runs import list_runs
from probe.target import Target
from probe.units import NS_PER_S

from ..outcome import Cost
from ..proof import Sides

_NOT_FINITE = 3  # values in a row after which a training has diverged


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: seconds and joules by the last moment that did not meet the target.

    ``reached``: a value has met it; ``logged``: names of what was logged; ``diverged``: its newest
    values are not finite; ``last``: the newest finite value, ``smoothed``: a mean of several, as of
    what is logged at nearly every step.
    """

    spent: Cost
    reached: bool
    logged: Sequence[str]
    diverged: bool
    last: float | None
    smoothed: bool


def only_run(directory: Path) -> Path | None:
    """The run in a training's own directory; None if there is none, or several."""
    runs = list_runs(directory)
    return runs[0] if len(runs) == 1 else None


def to_target(run: Path, target: Target) -> Cost | None:
    """Seconds and measured joules until the target; None if it missed it. Raises StoreError."""
    recording = Recording(run)
    if recording.quality(target.metric, target.higher) is None:
        return None
    trial = recording.trial(target, None, {MARK: None})
    if not trial.reached:
        return None
    return Cost(trial.time_s, trial.energy_j if trial.energy is Provenance.MEASURED else None)


def progress(run: Path, target: Target, *, energy: bool) -> Progress:
    """How far a run is that may still go on. Raises StoreError.

    Args:
        energy: read its joules as well, which takes longer.
    """
    recording = Recording(run)
    names = [name for name in (target.metric, f"eval_{target.metric}") if name in recording.logged]
    values = recording.logged[names[0]][1] if names else np.array([])
    finite = values[np.isfinite(values)]
    newest = values[-_NOT_FINITE:]
    quality = recording.quality(target.metric, target.higher)
    reached, when_ns = False, recording.begin_ns
    if quality is not None:
        met = quality.values >= target.value if target.higher else quality.values <= target.value
        reached = bool(met.any())
        unmet = int(np.argmax(met)) if reached else len(met)
        if unmet:
            when_ns = recording.work.when(float(quality.samples[unmet - 1]))
    joules = None
    if energy and when_ns > recording.begin_ns:
        measured = Measured(run)
        if measured.provenance is Provenance.MEASURED:
            joules = measured.until(when_ns)[1]
    return Progress(
        Cost((when_ns - recording.begin_ns) / NS_PER_S, joules),
        reached,
        sorted(recording.logged),
        len(newest) == _NOT_FINITE and not np.isfinite(newest).any(),
        None if quality is None else quality.last,
        quality is not None and len(quality.values) < len(finite),
    )


def live_joules(run: Path) -> float | None:
    """Measured joules so far, about a second old; None where there are none."""
    live = read_live(run)
    return None if live is None else live.energy_j()


def cost_of(run: Path) -> Cost:
    """Seconds and measured joules of all of a run. Raises StoreError."""
    reader = RunReader(run)
    end_ns = max(reader.end_ns(), reader.begin_ns + 1)
    joules = None
    try:
        measured = Measured(run)
        if measured.provenance is Provenance.MEASURED:
            joules = measured.until(end_ns)[1]
    except ProbeError:  # killed before anything was recorded
        joules = None
    return Cost((end_ns - reader.begin_ns) / NS_PER_S, joules)


def sides(default: Sequence[Path], champion: Sequence[Path], target: Target, name: str) -> Sides:
    """The runs of a proof as ``probe compare`` reads them. Raises UsageError, StoreError."""
    campaign = Campaign.over([("default", default), (name, champion)], target)
    base, other = campaign.sides
    problems = [
        *compatibility.inner(base.trials, targeted=True),
        *compatibility.inner(other.trials, targeted=True),
        *compatibility.differences(base.trials, other.trials, targeted=True),
    ]
    return Sides(base, other, campaign.question(TOLERANCE), problems)
