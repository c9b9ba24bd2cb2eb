"""The runs of a comparison, read together: one target, one early stage, one metric for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UsageError
from ..model import Phase, RunStatus
from ..simulated_card import LINE
from ..store.layout import runs_dir
from ..store.runs import find_side
from ..target import Target
from . import compatibility
from .comparison import compare
from .model import ComparisonReport, StageEnd
from .progress import is_of_evaluation, judged_by
from .read_run import MARKS, Recording, median_run
from .run_record import Trial
from .sides import Question, Side


@dataclass(frozen=True, slots=True)
class Campaign:
    """Sides with their trials; the first one is the base.

    ``left_out`` and ``remarks`` are lines about runs that are not or not wholly in it;
    ``of_evaluation``: by its name, the metric by which they are judged is of an evaluation.
    """

    sides: Sequence[Side]
    target: Target | None
    judged: tuple[str, bool] | None
    marks: Mapping[float, float | None]
    left_out: Sequence[str]
    remarks: Sequence[str] = ()
    of_evaluation: bool = True

    @classmethod
    def of(
        cls,
        base: str,
        others: Sequence[str],
        *,
        directory: str | Path | None = None,
        target: str | Target | None = None,
    ) -> Campaign:
        """Find and read the runs of each side, as :func:`probe.compare.compare` says.

        Raises UsageError, StoreError.
        """
        where = runs_dir(directory)
        left_out: list[str] = []
        sides = [(name, find_side(name, where, left_out)) for name in (base, *others)]
        return cls.over(sides, target, left_out)

    @classmethod
    def over(
        cls,
        sides: Sequence[tuple[str, Sequence[Path]]],
        target: str | Target | None = None,
        left_out: Sequence[str] = (),
        *,
        equal_work: bool = False,
    ) -> Campaign:
        """Read the runs in these directories; those that did not finish are left out.

        Args:
            left_out: lines about runs that were left out before.
            equal_work: compare to no target, though the runs were given one.

        Raises:
            UsageError: the base, or every other side, has no finished run.
            StoreError: a run cannot be read.
        """
        lines, remarks = [*left_out], []
        read: list[tuple[str, list[Recording]]] = []
        for name, paths in sides:
            recordings = [Recording(path) for path in dict.fromkeys(paths)]
            finished = [run for run in recordings if run.finished]
            lines += [left_out_line(run) for run in recordings if not run.finished]
            remarks += [
                f"{run.id}: its raw data were thinned; its phases are known where edges were kept"
                for run in finished
                if run.is_thinned
            ]
            if finished:
                read.append((name, finished))
            elif name == sides[0][0] or len(sides) == 2:
                why = "; ".join(_why_out(run) for run in recordings)
                raise UsageError(
                    f"{name!r} has no finished run to compare: {why}; give one that finished"
                )
            else:
                lines.append(f"{name} is left out: none of its runs finished")
        if len(read) < 2:
            raise UsageError(f"only {read[0][0]!r} has a finished run: nothing to compare it with")
        check_apart(read)
        remarks += check_simulated(read)
        asked = Target.of(target) if isinstance(target, str) else target
        if asked is None and not equal_work:
            asked = common_target([run for _, runs in read for run in runs])
        every = [run for _, runs in read for run in runs]
        if asked is not None:
            missing = next(
                (run for run in every if run.quality(asked.metric, asked.higher) is None), None
            )
            if missing is not None:
                names = ", ".join(sorted(missing.logged)) or "nothing"
                raise UsageError(
                    f"{missing.id} did not log {asked.metric}, the target's metric; "
                    f"it logged {names}"
                )
        judged = (asked.metric, asked.higher) if asked else _judged(every)
        marks = _marks(read[0][1], asked, judged)
        return cls(
            [
                Side(common_label(name, runs), [run.trial(asked, judged, marks) for run in runs])
                for name, runs in read
            ],
            asked,
            judged,
            marks,
            lines,
            remarks,
            judged is None
            or is_of_evaluation(judged[0])
            or not any(judged[0] in run.logged for run in every),  # but with a prefix
        )

    def question(self, tolerance: float) -> Question:
        """What is asked of all sides."""
        metric, higher = self.judged or (None, None)
        return Question(self.target, tolerance, metric, higher)

    def warnings(self) -> list[str]:
        """Lines about runs that are left out, and about how the others were read."""
        lines = [*self.left_out, *self.remarks]
        if len({_has_startup(trial) for side in self.sides for trial in side.trials}) > 1:
            lines.append(
                "some of these runs were recorded before start-up and inference were phases: there "
                "they are in other, eval and unattributed"
            )
        if any(trial.unit == "steps" for side in self.sides for trial in side.trials):
            lines.append(
                "work is counted in steps, which may differ in size: log how much was trained with "
                "run.log(samples=…)"
            )
        return lines

    def compared(self, tolerance: float, *, same_task: bool = False) -> ComparisonReport:
        """The comparison; ``same_task``: of models that may differ, held to their quality.

        Raises UsageError if a side mixes what differs.
        """
        base, others = self.sides[0], self.sides[1:]
        targeted = self.target is not None
        for side in self.sides:
            mixed = compatibility.inner(side.trials, targeted=targeted)
            if mixed:
                raise UsageError(f"the runs of {side.name!r} are of several kinds: {mixed[0]}")
        problems = [
            compatibility.differences(
                base.trials, side.trials, targeted=targeted, same_task=same_task
            )
            for side in others
        ]
        other_models = [
            side.name for side in others if compatibility.are_other_models(base.trials, side.trials)
        ]
        warnings = self.warnings() + self._about_models(other_models, same_task)
        return replace(
            compare(base, others, self.question(tolerance), problems),
            early_ends_at=[StageEnd(share, value) for share, value in self.marks.items()],
            tolerance_percent=100 * tolerance,
            left_out=self.left_out,
            warnings=warnings,
        )

    def _about_models(self, sides: Sequence[str], same_task: bool) -> list[str]:
        """Lines about sides that trained another model than the base."""
        if not sides:
            return []
        if not same_task:
            return ["models that do the same job are compared with --same-task, by their quality"]
        lines = [
            f"{', '.join(sides)}: another model than the base's, taken to do the same job; it is "
            "held to its quality"
        ]
        if self.judged is not None and not self.of_evaluation:
            lines.append(
                f"{self.judged[0]} may be of training data, where a larger model is better than it "
                "is elsewhere: log eval_loss or eval_accuracy"
            )
        return lines


def left_out_line(run: Recording) -> str:
    """Why a run that did not finish is left out."""
    return f"{run.id} is left out: it {_status_of(run)}"


def _why_out(run: Recording) -> str:
    return f"{run.id} {_status_of(run)}"


def _status_of(run: Recording) -> str:
    if run.status is RunStatus.FAILED:
        return "failed"
    return f"{'is still' if run.status is RunStatus.RUNNING else 'was'} {run.status}"


def check_apart(sides: Sequence[tuple[str, Sequence[Recording]]]) -> None:
    """Raises UsageError if one run is on two sides."""
    seen: dict[str, str] = {}
    for name, runs in sides:
        for run in runs:
            if run.id in seen:
                raise UsageError(
                    f"{run.id} is on two sides, {seen[run.id]!r} and {name!r}: "
                    "a run cannot be compared with itself"
                )
            seen[run.id] = name


def check_simulated(sides: Sequence[tuple[str, Sequence[Recording]]]) -> list[str]:
    """A line if the runs are of the simulated card. Raises UsageError if some are and some not."""
    runs = [run for _, theirs in sides for run in theirs]
    made_up = next((run for run in runs if run.simulated), None)
    real = next((run for run in runs if not run.simulated), None)
    if made_up is None:
        return []
    if real is not None:
        raise UsageError(
            f"{made_up.id} is of a simulated card, {real.id} is not: they cannot be compared"
        )
    return [LINE]


def _has_startup(trial: Trial) -> bool:
    return any(Phase.STARTUP in stage.phases for stage in trial.stages.values())


def common_target(recordings: Sequence[Recording]) -> Target | None:
    """The target of all runs; None if they differ, which the comparison then names."""
    targets = {run.target for run in recordings} - {None}
    if len(targets) != 1 or any(run.target is None for run in recordings):
        return None
    return Target.of(str(targets.pop()))


def _judged(recordings: Sequence[Recording]) -> tuple[str, bool] | None:
    """The metric that all runs logged."""
    shared = set.intersection(*(set(run.logged) for run in recordings))
    return judged_by({name: recordings[0].logged[name] for name in shared})


def _marks(
    bases: Sequence[Recording], target: Target | None, judged: tuple[str, bool] | None
) -> dict[float, float | None]:
    """Share of samples → the quality at which the early stage ends.

    It is the quality of the base's median run after a third of its samples. Without a target all
    runs do the same work, and a third of that is the mark (None): a mark by quality would count
    as gain of one stage what the other one lost.
    """
    if target is None or judged is None:
        return dict.fromkeys(MARKS)
    middle = median_run(bases, target)
    quality = middle.quality(*judged)
    samples = middle.samples_to(target) or middle.work.all
    return {share: None if quality is None else quality.at(share * samples) for share in MARKS}


def common_label(reference: str, runs: Sequence[Recording]) -> str:
    """The runs' common name, else what the user wrote."""
    names = {run.name for run in runs}
    return names.pop() if len(names) == 1 and "" not in names else reference
