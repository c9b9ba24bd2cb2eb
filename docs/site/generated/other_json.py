"""Every key of the JSON that commands other than ``probe report`` print, from their types."""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .schema import prose

_HEAD = """# The JSON of the other commands

As in [a report](report-json.md): a value that is not known is null, never 0; names end in their
units; an interval is a list of its two ends.
"""

_ONE = "An object of this form."
# By command: the module and the name of the type, and what is printed of it. Imported when the page
# is made, since those of optimizers need torch.
ROOTS: dict[str, tuple[str, str]] = {
    "probe compare": ("probe.compare.model.ComparisonReport", _ONE),
    "probe ls": ("probe.store.catalogue.rows.RunSummary", "A list of these."),
    "probe ls --by": (
        "probe.store.catalogue.totals.Sum",
        "An object: the word after `--by` holds one of these for each day, name, tag or host, "
        "`all` one for all runs, and `currency` that of the costs.",
    ),
    "probe doctor": ("probe.cli.commands.doctor.Diagnosis", _ONE),
    "probe advise": ("probe.compare.advise.Advice", _ONE),
    "probe diff": ("probe.compare.run_differences.RunDifferences", _ONE),
    "probe objective": ("probe.compare.objective.model.ObjectiveReport", _ONE),
    "probe tables": ("probe.compare.paper.model.PaperTables", _ONE),
    "probe card": ("optimizers.cards.model.CardSet", _ONE),
    "probe search": ("optimizers.search.result.SearchResult", _ONE),
    "probe ablate": (
        "optimizers.ablation.model.AblationResult",
        "An object of this form, without the parts of other designs.",
    ),
}
_PLAIN = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
    object: "any value",
    Any: "any value",
}


def page() -> str:
    """The page, in Markdown."""
    parts = [_HEAD]
    for command, (name, what) in ROOTS.items():
        root = type_of(name)
        word = "--json" if " --" not in command else "… --json"
        parts.append(f"\n## `{command} {word}`\n\n{what}\n")
        shown: dict[str, type] = {}
        waiting = [root]
        while waiting:
            kind = waiting.pop(0)
            if kind.__name__ in shown:
                continue
            shown[kind.__name__] = kind
            parts.append("\n".join(_described(kind, is_root=kind is root)) + "\n")
            waiting += [below for hint in keys(kind).values() for below in _types_in(hint)]
    return "".join(parts)


def type_of(name: str) -> type:
    """The type of that full name."""
    module, _, own = name.rpartition(".")
    kind: type = getattr(importlib.import_module(module), own)
    return kind


def keys(kind: type) -> dict[str, Any]:
    """The JSON keys of a dataclass or TypedDict, with their types."""
    hints = get_type_hints(kind)
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(hints)
    return {name.rstrip("_"): hints[name] for name in names}


def _described(kind: type, *, is_root: bool) -> Iterator[str]:
    if not is_root:
        yield f"\n**{kind.__name__}**"
    yield f"\n{prose(inspect.getdoc(kind) or '')}\n"
    yield "| key | value |\n| --- | --- |"
    yield from (f"| `{key}` | {_shown(hint)} |" for key, hint in keys(kind).items())


def _is_object(kind: Any) -> bool:
    return isinstance(kind, type) and (is_dataclass(kind) or typing.is_typeddict(kind))


def _types_in(hint: Any) -> Iterator[type]:
    """The dataclasses and TypedDicts that a type names."""
    if _is_object(hint):
        yield hint
    for part in get_args(hint):
        yield from _types_in(part)


def _shown(hint: Any) -> str:
    """A type in words."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if _is_object(hint):
        return str(hint.__name__)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "one of " + ", ".join(f"`{member.value}`" for member in hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_shown(part) for part in parts)
    if origin is Literal:
        return "one of " + ", ".join(f"`{part}`" for part in parts)
    if origin is tuple and Ellipsis not in parts:
        return "[" + ", ".join(_shown(part) for part in parts) + "]"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"object of {_grouped(parts[1])}"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"list of {_grouped(parts[0])}"
    return "any JSON value"


def _grouped(hint: Any) -> str:
    """As :func:`_shown`, in brackets where it is one type or another."""
    shown = _shown(hint)
    return f"({shown})" if " or " in shown else shown
