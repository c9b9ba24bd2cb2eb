"""The runs of each configuration, found and read together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ...errors import NothingToReport, UsageError
from ...report.sentences import short
from ...store.layout import runs_dir
from ...store.runs import find_side
from ...target import Target
from .. import compatibility
from ..groups import check_apart, check_simulated, common_label, common_target, left_out_line
from ..read_run import Recording
from ..run_record import Trial
from .evaluate import evaluate
from .model import Limit, ObjectiveReport
from .read import Group, run_cost

_SAMPLES_DIFFER = 0.01  # share of the base's samples


@dataclass(frozen=True, slots=True)
class Configurations:
    """What their runs cost; the first is the base. ``warnings`` are lines about the runs."""

    groups: Sequence[Group]
    target: Target | None
    work: str
    warnings: Sequence[str]

    @classmethod
    def read(
        cls,
        references: Sequence[str],
        *,
        directory: str | Path | None = None,
        target: str | None = None,
    ) -> Configurations:
        """Find and read the runs, as :func:`probe.compare.objective.objective` says.

        Raises UsageError, NothingToReport, StoreError.
        """
        lines: list[str] = []
        finished = _finished(references, runs_dir(directory), lines)
        every = [run for _, runs in finished for run in runs]
        until = common_target(every) if target is None else Target.of(target)
        for run in every:
            if until is not None and run.quality(until.metric, until.higher) is None:
                raise UsageError(f"{run.id} did not log {until.metric}, the target's metric")
        groups: list[Group] = []
        trials: list[list[Trial]] = []
        for reference, runs in finished:
            pairs = [run_cost(run, until) for run in runs]
            name = common_label(reference, runs)
            if any(group.name == name for group in groups):
                name = reference  # two runs of one name, each for itself
            groups.append(Group(name, [cost for cost, _ in pairs]))
            trials.append([trial for _, trial in pairs])
        lines += _unlike(groups, trials, targeted=until is not None)
        return cls(groups, until, trials[0][0].unit, lines)

    def evaluated(
        self,
        weights: Mapping[str, float] | None = None,
        limits: Sequence[Limit] = (),
        front: Sequence[str] = (),
    ) -> ObjectiveReport:
        """The objective of each; arguments and errors as of :func:`evaluate.evaluate`."""
        return evaluate(
            self.groups,
            weights,
            limits,
            front,
            target=None if self.target is None else str(self.target),
            work=self.work,
            warnings=self.warnings,
        )


def _finished(
    references: Sequence[str], directory: Path, lines: list[str]
) -> list[tuple[str, list[Recording]]]:
    """The finished runs of each reference that has any; all others become lines."""
    kept: list[tuple[str, list[Recording]]] = []
    empty = []
    for reference in references:
        recordings = [
            Recording(path) for path in dict.fromkeys(find_side(reference, directory, lines))
        ]
        lines += [left_out_line(run) for run in recordings if not run.finished]
        finished = [run for run in recordings if run.finished]
        if finished:
            kept.append((reference, finished))
        else:
            empty.append(reference)
    if not kept:
        raise NothingToReport(f"none of these runs finished: {'; '.join(lines)}")
    if kept[0][0] != references[0]:
        raise UsageError(f"{references[0]!r} has no finished run, so it cannot be the base")
    check_apart(kept)
    lines += check_simulated(kept)
    lines += [f"{reference} is left out: none of its runs finished" for reference in empty]
    return kept


def _unlike(
    groups: Sequence[Group], trials: Sequence[Sequence[Trial]], *, targeted: bool
) -> list[str]:
    """A line for whatever makes a configuration unlike the base, or its own runs unlike."""
    lines = []
    for group, theirs in zip(groups, trials, strict=True):
        name, base = short(group.name, 60), short(groups[0].name, 60)
        mixed = compatibility.inner(theirs, targeted=targeted)
        lines += [f"the runs of {name} are of several kinds: {line}" for line in mixed]
        unlike = compatibility.differences(trials[0], theirs, targeted=targeted)
        if not unlike and not targeted and _samples_differ(trials[0], theirs):
            unlike = ["other numbers of samples: weigh time_per_sample and energy_per_sample"]
        if theirs is not trials[0]:
            lines += [f"{name} is not like {base}: {line}" for line in unlike]
    return lines


def _samples_differ(base: Sequence[Trial], other: Sequence[Trial]) -> bool:
    expected, trained = (fmean(trial.samples for trial in side) for side in (base, other))
    return abs(trained - expected) > _SAMPLES_DIFFER * expected
