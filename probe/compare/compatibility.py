"""May these runs be held against each other? What differs, by name."""

from __future__ import annotations

from collections.abc import Sequence

from ..report.numbers import number
from .run_record import Setting, Trial

_SAME_STEPS = 0.1  # numbers of steps that differ by more may be of steps of another size

_WORDS = {
    "model": "another model (names and shapes of its parameters)",
    "data": "other data",
    "target": "another target",
    "hardware": "other hardware",
    "samples": "another sample budget, so another schedule",
    "unit": "its work is counted in another unit",
}


def differences(
    base: Sequence[Trial], other: Sequence[Trial], *, targeted: bool, same_task: bool = False
) -> list[str]:
    """One line for everything that must agree and does not; what a run does not tell is let pass.

    Args:
        targeted: the comparison has a target of its own, so that of the runs does not matter.
        same_task: models may differ, if each run tells how good it became.
    """
    lines = []
    for name, words in _WORDS.items():
        if name == "target" and targeted:
            continue
        if not _differ(base, other, name):
            continue
        if name == "model" and same_task:
            lines += _without_quality([*base, *other])
        else:
            base_values, other_values = (_said(_values(side, name)) for side in (base, other))
            lines.append(f"{words}: {base_values} against {other_values}")
    if not targeted and not lines:
        lines += _uneven_steps(base, other)
    return lines


def are_other_models(base: Sequence[Trial], other: Sequence[Trial]) -> bool:
    """True if both sides tell their model, and it is not the same."""
    return _differ(base, other, "model")


def _differ(base: Sequence[Trial], other: Sequence[Trial], name: str) -> bool:
    base_values, other_values = _values(base, name), _values(other, name)
    return bool(base_values and other_values and base_values != other_values)


def _without_quality(trials: Sequence[Trial]) -> list[str]:
    """Where models may differ, only their quality says that they do the same job."""
    unknown = next((trial.id for trial in trials if trial.quality is None), None)
    if unknown is None:
        return []
    return [
        f"how good the models became is not known of {unknown}: log one metric in all runs, such "
        "as run.log(eval_loss=…)"
    ]


def _uneven_steps(base: Sequence[Trial], other: Sequence[Trial]) -> list[str]:
    """Where only steps are counted: a different number may mean steps of another size."""
    sides = (base, other)
    if any(trial.unit != "steps" or "target" in trial.is_like for side in sides for trial in side):
        return []
    fewer, more = sorted(sum(trial.samples for trial in side) / len(side) for side in sides)
    if more <= fewer * (1 + _SAME_STEPS):
        return []
    return [
        f"only steps are counted, {number(more)} against {number(fewer)}, of unknown size: "
        "log how much was trained with run.log(samples=…)"
    ]


def inner(side: Sequence[Trial], *, targeted: bool) -> list[str]:
    """What differs among the runs of one side."""
    return [
        f"{words}: {_said(values)}"
        for name, words in _WORDS.items()
        if not (name == "target" and targeted) and len(values := _values(side, name)) > 1
    ]


def _values(side: Sequence[Trial], name: str) -> set[Setting]:
    return {trial.is_like[name] for trial in side if name in trial.is_like}


def _said(values: set[Setting]) -> str:
    return ", ".join(sorted(map(str, values)))
