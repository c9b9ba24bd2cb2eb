"""Techniques in an order that works, or one clear line that says why there is none."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import entry_points
from typing import Any

from . import techniques
from .errors import TechniqueRefused
from .plan import Plan
from .technique import GROUP, Technique
from .techniques.accumulation import GradientAccumulation
from .techniques.checkpointing import Checkpointing
from .techniques.clipping import Clipping
from .techniques.precision import MixedPrecision
from .techniques.schedule import WarmupCosine
from .techniques.zero import Zero


class Stack:
    """A set of techniques: ``Stack([MixedPrecision(), WarmupCosine()])``."""

    def __init__(self, techniques: Iterable[Technique] = (), *, name: str = "custom"):
        """Order the techniques.

        Raises:
            TechniqueRefused: two of them conflict, one lacks what it requires, or is there twice.
        """
        self.name = name
        self.techniques = _ordered(list(techniques))

    @classmethod
    def baseline(cls) -> Stack:
        """Nothing: fp32, constant rate, one batch a step (the paper's §IV-B)."""
        return cls(name="baseline")

    @classmethod
    def paper(cls) -> Stack:
        """All techniques of the paper's stack.

        Half precision is bf16, fp32 on a CPU without bf16; ZeRO-2 only on several ranks.
        """
        return cls(
            [
                GradientAccumulation(k=4, adaptive=True),
                WarmupCosine(),
                Clipping(1.0),
                MixedPrecision(),
                Checkpointing(),
                Zero(2),
            ],
            name="paper",
        )

    @classmethod
    def of(cls, text: str) -> Stack:
        """Parse a command line: ``baseline``, ``paper``, or names: ``accumulation,precision``.

        Raises:
            TechniqueRefused: an unknown name.
        """
        if text in ("baseline", "paper"):
            return cls.baseline() if text == "baseline" else cls.paper()
        available = discover()
        names = [word.strip() for word in text.split(",") if word.strip()]
        for name in names:
            if name not in available:
                raise TechniqueRefused(
                    f"no technique is called {name!r}; there are: baseline, "
                    f"paper, {', '.join(sorted(available))}"
                )
        return cls([available[name]() for name in names], name="+".join(names))

    def __iter__(self) -> Iterator[Technique]:
        return iter(self.techniques)

    def __contains__(self, name: str) -> bool:
        return any(technique.name == name for technique in self.techniques)

    def plan(self, plan: Plan) -> Plan:
        """The plan with all techniques in it. Raises TechniqueRefused."""
        for technique in self.techniques:
            plan = technique.plan(plan)
        return plan

    def table(self, plan: Plan) -> str:
        """A table for a terminal: each technique, its equation, settings and predicted effect.

        Args:
            plan: as it is without the stack.
        """
        plan = self.plan(plan)
        if not self.techniques:
            return f"stack {self.name}: no technique, fp32, constant rate"
        rows = [("technique", "equation", "settings", "should change")]
        rows += [(t.name, t.equation, settings(t), t.predicts(plan)) for t in self.techniques]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"stack {self.name}"]
        for row in rows:
            front = "  ".join(cell.ljust(widths[i]) for i, cell in enumerate(row[:3]))
            lines.append(f"  {front}  {row[3]}".rstrip())
        return "\n".join([*lines, *(f"  note: {note}" for note in plan.notes)])

    def as_json(self) -> list[dict[str, str]]:
        """The techniques with their settings, for run.json."""
        return [{"technique": t.name, "settings": settings(t)} for t in self.techniques]


def settings(technique: Technique) -> str:
    """The fields of a technique that are not None: ``k=4 mode=split``."""
    if not dataclasses.is_dataclass(technique):
        return ""
    values = (
        (field.name, getattr(technique, field.name)) for field in dataclasses.fields(technique)
    )
    return " ".join(f"{name}={value}" for name, value in values if value is not None)


def discover() -> dict[str, type[Technique]]:
    """Every technique class by name: our modules', then third parties'.

    Raises:
        TechniqueRefused: a third party's cannot be loaded, or has the name of another technique.
    """
    by_name: dict[str, type[Technique]] = {}
    for info in pkgutil.iter_modules(techniques.__path__):
        module = importlib.import_module(f"{techniques.__name__}.{info.name}")
        kinds: list[Any] = [v for v in vars(module).values() if inspect.isclass(v)]
        for kind in kinds:
            if kind.__module__ == module.__name__ and _is_technique(kind):
                by_name[kind.name] = kind
    for entry in sorted(entry_points(group=GROUP)):
        try:
            kind = entry.load()
        except Exception as error:
            raise TechniqueRefused(
                f"the technique {entry.name!r} ({entry.value}) cannot be "
                f"loaded: {type(error).__name__}: {error}"
            ) from error
        if not _is_technique(kind):
            raise TechniqueRefused(
                f"{entry.value} is not a technique: it lacks one of name, "
                "equation, requires, conflicts, after, plan, predicts"
            )
        if kind.name in by_name:
            raise TechniqueRefused(f"{entry.value} calls itself {kind.name!r}, which is taken")
        by_name[kind.name] = kind
    return by_name


def _is_technique(kind: Any) -> bool:
    named = isinstance(getattr(kind, "name", None), str)
    return named and all(
        hasattr(kind, part)
        for part in ("equation", "requires", "conflicts", "after", "plan", "predicts")
    )


def _ordered(techniques: list[Technique]) -> list[Technique]:
    by_name: dict[str, Technique] = {}
    for technique in techniques:
        if technique.name in by_name:
            raise TechniqueRefused(f"{technique.name} is in the stack twice: leave one out")
        by_name[technique.name] = technique
    for technique in techniques:
        for other in sorted(technique.conflicts & by_name.keys()):
            raise TechniqueRefused(f"{technique.name} does not go with {other}: leave one out")
        for other in sorted(technique.requires - by_name.keys()):
            raise TechniqueRefused(f"{technique.name} needs {other}: add it to the stack")
    # By name where nothing else orders them: a stack is a set, however it was written.
    graph = {
        name: [n for n in sorted(by_name) if n in by_name[name].after | by_name[name].requires]
        for name in sorted(by_name)
    }
    try:
        return [by_name[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise TechniqueRefused(f"the stack has no order: {' → '.join(error.args[1])}") from None
