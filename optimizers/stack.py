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

from . import paper, recommended, stack_text, techniques
from .errors import TechniqueRefused
from .plan import Plan
from .technique import Technique
from .techniques.precision import MixedPrecision


class Stack:
    """A set of techniques, in the order in which they change a plan.

    ``Stack([MixedPrecision(), WarmupCosine()])``, or of a text, ``Stack.of("precision,schedule")``.
    Techniques that do not go together are refused (TechniqueRefused, one line) when the stack is
    made or when the plan is.

    ``name`` says all of it, is the same however the stack was written, and :meth:`of` reads it.
    """

    def __init__(self, techniques: Iterable[Technique] = (), *, name: str | None = None):
        """Order the techniques.

        Raises:
            TechniqueRefused: two of them conflict, one lacks what it requires, or is there twice.
        """
        self.techniques = _ordered(list(techniques))
        self.name = name or "+".join(sorted(map(stack_text.write, self.techniques))) or "baseline"
        self._of_paper: frozenset[str] | None = None  # whose settings are the paper's choice

    @classmethod
    def baseline(cls) -> Stack:
        """Nothing: fp32, constant rate, one batch a step (the paper's §IV-B)."""
        return cls(name="baseline")

    @classmethod
    def paper(cls) -> Stack:
        """The paper's stack, with the paper's settings (:mod:`optimizers.paper`).

        On a CPU its fp16 is bf16, or fp32 on one without bf16; ZeRO-2 needs several ranks. The
        table says what differs from the paper.
        """
        return cls._from_paper({})

    @classmethod
    def recommended(cls, device: str, kind: str) -> Stack:
        """The stack that paid for a kind of model where it was measured (docs/CARDS.md).

        Args:
            device: ``cpu``.
            kind: ``convolutional`` or ``transformer``.

        Raises:
            UsageError: nothing was measured for it.
            TechniqueRefused: a package that it needs is not installed.
        """
        return cls.of(recommended.stack_text(device, kind))

    @classmethod
    def of(cls, text: str) -> Stack:
        """Parse a command line: ``baseline``, ``paper``, or techniques with their options.

        ``precision(dtype=fp16,mode=master),accumulation(k=4..8)``. Every field of a technique is
        an option. After ``paper`` options change the paper's own technique, which keeps the rest of
        its settings; a technique that the paper does not have joins it. A stack's ``name`` is read
        as well.

        Raises:
            TechniqueRefused: an unknown name or field, a value of another type, an open bracket.
        """
        available = discover()
        words = [stack_text.read(word) for word in stack_text.split(text)]
        names = [name for name, _ in words]
        for name in names:
            if name not in available and name not in ("baseline", "paper"):
                raise TechniqueRefused(
                    f"no technique is called {name!r}; there are: baseline, "
                    f"paper, {', '.join(sorted(available))}"
                )
            if names.count(name) > 1:
                raise TechniqueRefused(f"{name} is in the stack twice: leave one out")
        if not words:
            raise TechniqueRefused("the stack is empty: write baseline, paper or techniques")
        options = dict(words)
        for name in ("baseline", "paper"):
            if options.get(name):
                raise TechniqueRefused(f"{name} has no options; write {name},zero(stage=3)")
        if "baseline" in options:
            if len(options) > 1:
                raise TechniqueRefused("baseline is a stack without techniques: leave it out")
            return cls.baseline()
        if "paper" in options:
            del options["paper"]
            return cls._from_paper(options)
        return cls([stack_text.make(available[name], given) for name, given in options.items()])

    @classmethod
    def _from_paper(cls, options: dict[str, dict[str, str]]) -> Stack:
        available, own = discover(), {member.name: member for member in paper.members()}
        chosen = own | {
            name: stack_text.make(available[name], given, own.get(name))
            for name, given in options.items()
        }
        stack = cls(chosen.values())
        # An fp16 that was asked for is kept on a CPU, too, and the name must say so.
        asked = "dtype" in options.get(MixedPrecision.name, {})
        bases = dict(own)
        if asked and getattr(chosen[MixedPrecision.name], "dtype", None) == "fp16":
            bases[MixedPrecision.name] = MixedPrecision(mode="master")
        words = [
            stack_text.write(technique, bases.get(technique.name))
            for technique in stack.techniques
            if technique != bases.get(technique.name)
        ]
        stack.name = "+".join(["paper", *sorted(words)])
        stack._of_paper = frozenset(own) - ({MixedPrecision.name} if asked else set())
        return stack

    def __iter__(self) -> Iterator[Technique]:
        return iter(self.techniques)

    def __contains__(self, name: str) -> bool:
        return any(technique.name == name for technique in self.techniques)

    def on(self, plan: Plan) -> list[Technique]:
        """The techniques as they are used for this plan: the paper's may have to differ."""
        return [
            paper.fitted(technique, plan) if technique.name in (self._of_paper or ()) else technique
            for technique in self.techniques
        ]

    def plan(self, plan: Plan) -> Plan:
        """The plan with all techniques in it. Raises TechniqueRefused."""
        used = self.on(plan)
        for technique in used:
            plan = technique.plan(plan)
        if self._of_paper is not None:
            for line in paper.departures(plan, used):
                plan = plan.note(line)
        return plan

    def table(self, plan: Plan) -> str:
        """A table for a terminal: each technique, its equation, settings and predicted effect.

        Args:
            plan: as it is without the stack.
        """
        used, plan = self.on(plan), self.plan(plan)
        if not self.techniques:
            return f"stack {self.name}: no technique, fp32, constant rate"
        rows = [("technique", "equation", "settings", "should change")]
        rows += [(t.name, t.equation, settings(t), t.predicts(plan)) for t in used]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"stack {self.name}"]
        for row in rows:
            front = "  ".join(cell.ljust(widths[i]) for i, cell in enumerate(row[:3]))
            lines.append(f"  {front}  {row[3]}".rstrip())
        return "\n".join([*lines, *(f"  note: {note}" for note in plan.notes)])

    def as_json(self, plan: Plan) -> list[dict[str, str]]:
        """The techniques with the settings they have for this plan, for run.json."""
        return [{"technique": t.name, "settings": settings(t)} for t in self.on(plan)]


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
    for entry in sorted(entry_points(group=techniques.GROUP)):
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
