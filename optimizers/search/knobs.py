"""What can be set of a training, and the values that are tried.

A knob has a place: an argument of the command (``{name}``), the stack (``{stack}``), or, for the
number of threads, the environment. None is always among its values: the script's own setting.
"""

from __future__ import annotations

import math
import os
import pkgutil
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from probe.spelling import meant_or_all

from .. import techniques
from ..errors import UsageError

if TYPE_CHECKING:
    from optuna import Trial  # asked for only where trials are made

_OWN, _SET = "own", "set"
_RANGE = re.compile(r"(log:)?\s*([-+0-9.eE]+?)\.\.([-+0-9.eE]+)")
_COMMA = re.compile(r",(?![^(]*\))")  # outside of brackets
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_PRECISIONS = ("precision:dtype=bf16", "precision:dtype=bf16:mode=master")
_IN_STACK = {
    "precision": _PRECISIONS,
    "accumulation": ("accumulation:k=2", "accumulation:k=4", "accumulation:k=8"),
    "optimizer": ("fused",),
}


class Place(StrEnum):
    """Where a knob's value goes."""

    ARGUMENT = "argument"
    STACK = "stack"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Choices:
    """One of several texts."""

    name: str
    values: tuple[str, ...]
    place: Place = Place.ARGUMENT

    @property
    def size(self) -> float:
        """How many values it has, the script's own among them."""
        return len(self.values) + 1

    def suggest(self, trial: Trial) -> str | None:
        """A value by the sampler; None for the script's own."""
        drawn = trial.suggest_categorical(self.name, [_OWN, *(f"={v}" for v in self.values)])
        return None if drawn == _OWN else drawn[1:]


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two limits, both included; whole, or with four digits."""

    name: str
    low: float
    high: float
    log: bool
    is_whole: bool
    place: Place = Place.ARGUMENT

    @property
    def size(self) -> float:
        """How many values it has, the script's own among them."""
        return self.high - self.low + 2 if self.is_whole else math.inf

    def suggest(self, trial: Trial) -> str | None:
        """A value by the sampler; None for the script's own."""
        if trial.suggest_categorical(self.name, [_OWN, _SET]) == _OWN:
            return None
        inner = f"{self.name}.value"
        if self.is_whole:
            return str(trial.suggest_int(inner, int(self.low), int(self.high), log=self.log))
        return f"{trial.suggest_float(inner, self.low, self.high, log=self.log):.4g}"


Knob = Choices | Range


def own_parameters(knobs: Iterable[Knob]) -> dict[str, str]:
    """What an Optuna trial holds where every knob is the script's own."""
    return {knob.name: _OWN for knob in knobs}


def read_knobs(names: str, given: Sequence[str], placeholders: Iterable[str]) -> list[Knob]:
    """The knobs of a command line.

    Args:
        names: of ``--knobs``, with commas; techniques may have options in brackets.
        given: each ``name=values`` of ``--knob``.
        placeholders: names that stand in the command in braces, without ``seed``.

    Raises:
        UsageError: a name is not known, has no place or no values, a place has no knob.
    """
    places = set(placeholders)
    knobs = [_given(text, places) for text in given]
    knobs += [_named(name.strip(), places) for name in _COMMA.split(names) if name.strip()]
    seen: set[str] = set()
    for knob in knobs:
        if knob.name in seen:
            raise UsageError(f"the knob {knob.name} is there twice: leave one out")
        seen.add(knob.name)
    if not knobs:
        raise UsageError(
            "name what may be changed: --knobs batch,precision or --knob 'lr=log:1e-4..1e-1'"
        )
    in_stack = any(knob.place is Place.STACK for knob in knobs)
    for name in sorted(places - seen - ({"stack"} if in_stack else set())):
        if name == "stack":
            raise UsageError(
                "nothing changes {stack}: name techniques, as --knobs precision,schedule"
            )
        raise UsageError(f"{{{name}}} has no knob: say its values with --knob '{name}=1,2,4'")
    return knobs


def _given(text: str, places: set[str]) -> Knob:
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not _NAME.fullmatch(name) or name in ("seed", "stack"):
        raise UsageError(f"--knob {text!r}: write name=1,2,4 or name=log:1e-4..1e-1")
    place = _place(name, places)
    if match := _RANGE.fullmatch(values):
        try:
            low, high = float(match[2]), float(match[3])
        except ValueError:
            raise UsageError(f"--knob {text!r}: the ends of a range are numbers") from None
        log, is_whole = bool(match[1]), not re.search(r"[.eE]", match[2] + match[3])
        if not -math.inf < low < high < math.inf or (log and low <= 0):
            above = " above 0" if log else ""
            raise UsageError(f"--knob {text!r}: the ends are two numbers{above}, the smaller first")
        return Range(name, low, high, log, is_whole, place)
    choices = tuple(dict.fromkeys(word.strip() for word in values.split(",") if word.strip()))
    if not choices:
        raise UsageError(f"--knob {text!r}: it has no values")
    return Choices(name, choices, place)


def _place(name: str, places: set[str]) -> Place:
    if name in places:
        return Place.ARGUMENT
    if name == "threads":
        return Place.ENVIRONMENT
    raise UsageError(
        f"the knob {name} has no place in the command: write {{{name}}} where its value goes, "
        f"as in --{name.replace('_', '-')} {{{name}}}"
    )


def _named(text: str, places: set[str]) -> Knob:
    """A knob whose values are known to us."""
    name = re.split(r"[(:]", text)[0].strip()
    if name in places or name == "threads":
        values = _KNOWN.get(name)
        if values is None:
            raise UsageError(f"the values of {name} are not known: say them with --knob '{name}=…'")
        return Choices(name, values(), _place(name, places))
    there = technique_names()
    if name in there or name == "optimizer":
        if "stack" not in places:
            raise UsageError(
                f"the knob {name} is a technique and needs {{stack}} in the command: "
                "-- python train.py --stack {stack}"
            )
        return Choices(name, _of_stack(name, text), Place.STACK)
    if name in _KNOWN:
        _place(name, places)
    raise UsageError(f"no knob is called {name!r}{meant_or_all(name, [*_KNOWN, *there])}")


def technique_names() -> list[str]:
    """Of all techniques, before any of them is imported."""
    names = [module.name for module in pkgutil.iter_modules(techniques.__path__)]
    return sorted({*names, *(entry.name for entry in entry_points(group=techniques.GROUP))})


def _of_stack(name: str, text: str) -> tuple[str, ...]:
    if text != name:  # with options: as a stack's name has them
        return (text.replace("(", ":").replace(",", ":").replace(")", "").replace(" ", ""),)
    return _IN_STACK.get(name, (name,))


def _threads() -> tuple[str, ...]:
    most = len(os.sched_getaffinity(0))
    return (*(str(2**i) for i in range(most.bit_length()) if 2**i < most), str(most))


def _batches() -> tuple[str, ...]:
    return tuple(str(2**i) for i in range(3, 11))


_KNOWN = {"batch": _batches, "threads": _threads}
