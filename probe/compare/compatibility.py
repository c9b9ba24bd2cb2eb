"""May these runs be held against each other? What differs, by name."""

from __future__ import annotations

from collections.abc import Sequence

from .run_record import Setting, Trial

_WORDS = {
    "model": "another model (names and shapes of its parameters)",
    "data": "other data",
    "target": "another target",
    "hardware": "other hardware",
    "samples": "another sample budget, so another schedule",
    "unit": "its work is counted in another unit",
}


def differences(base: Sequence[Trial], other: Sequence[Trial], *, targeted: bool) -> list[str]:
    """One line for everything that must agree and does not; what a run does not tell is let pass.

    Args:
        targeted: the comparison has a target of its own, so that of the runs does not matter.
    """
    lines = []
    for name, words in _WORDS.items():
        if name == "target" and targeted:
            continue
        base_values, other_values = (_values(side, name) for side in (base, other))
        if base_values and other_values and base_values != other_values:
            lines.append(f"{words}: {_said(base_values)} against {_said(other_values)}")
    return lines


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
