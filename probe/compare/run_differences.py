"""What two runs were made with, and where that differs: code, packages, torch, data, machine.

A run that was recorded before these were kept has nothing to say of them: "not recorded".
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..model import SCHEMA_VERSION
from ..report.text_tables import Table
from ..store.members import Member
from ..store.node_files import read_sources
from ..store.reader import RunReader

NOT_RECORDED = "not recorded"
ABSENT = "absent"  # it was recorded, and there is none
WIDTH = 80  # columns, where there is no terminal
_OF_TORCH = ("torch", "model_hash")
_OF_THE_MACHINE = ("os", "cpu_model", "cpu_count", "memory_bytes", "driver")
_LONGEST = 60
_VERSIONS = "version of"
_Kept = Mapping[str, str] | None  # by name; None: not recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs; ``first`` and ``second`` are None where it was not recorded."""

    group: str
    what: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifferences:
    """Where two runs differ.

    ``same`` counts what agrees, by group; ``unknown`` names what neither run recorded.
    """

    first: str
    second: str
    differences: tuple[Difference, ...]
    same: Mapping[str, int]
    unknown: tuple[str, ...] = ()
    schema: int = SCHEMA_VERSION


def run_differences(first: Path, second: Path) -> RunDifferences:
    """Compare what two stored runs kept of how they were made. Raises StoreError."""
    before, after = _kept(first), _kept(second)
    differences: list[Difference] = []
    same: dict[str, int] = {}
    unknown = []
    for group, earlier in before.items():
        later = after[group]
        if earlier is None and later is None:
            unknown.append(group)
        elif earlier is None or later is None:
            values = [None if side is None else f"{len(side)} values" for side in (earlier, later)]
            differences.append(
                Difference(group=group, what="all of it", first=values[0], second=values[1])
            )
        else:
            for what in dict.fromkeys([*earlier, *later]):
                pair = earlier.get(what, ABSENT), later.get(what, ABSENT)
                if pair[0] == pair[1]:
                    same[group] = same.get(group, 0) + 1
                else:
                    differences.append(
                        Difference(group=group, what=what, first=pair[0], second=pair[1])
                    )
    unknown.append("seeds of numpy and random, which cannot say")
    return RunDifferences(
        first=first.name,
        second=second.name,
        differences=tuple(differences),
        same=same,
        unknown=tuple(unknown),
    )


def _kept(path: Path) -> dict[str, _Kept]:
    """What a run kept, by group and name; every group is there."""
    reader = RunReader(path)
    meta = reader.meta
    info = _first_rank(reader.members)
    machine = meta.get("machine") or {}
    versions = machine.get("versions")
    state = info.get("torch_state")
    torch = {name: str(value) for name, value in meta.items() if name in _OF_TORCH and value}
    of_machine = {name: str(machine[name]) for name in _OF_THE_MACHINE if name in machine}
    return {
        "code": _recorded(meta.get("code")),
        "command": _recorded({"command": " ".join(meta["command"])} if meta.get("command") else 0),
        "packages": _recorded(meta.get("packages")),
        "torch": torch | _texts(state or {}) if torch or state else None,
        "environment": _recorded(info.get("environment")),
        "config": _texts(meta.get("config") or {}),
        "data": {"data": str(meta.get("data") or "unknown")},
        "machine": of_machine
        | {"host": str(meta.get("host") or ""), "python": str(meta.get("python") or "")}
        | {"ranks": str(meta.get("ranks") or 1)}
        | _texts(versions if isinstance(versions, Mapping) else {}, _VERSIONS),
        "devices": _devices(reader),
    }


def _recorded(value: object) -> _Kept:
    return _texts(value) if isinstance(value, Mapping) else None


def _first_rank(members: Iterable[Member]) -> Mapping[str, object]:
    """What rank 0 said of itself, when it was started last; nothing without ranks."""
    ranks = [member for member in members if member.role == "rank"]
    if not ranks:
        return {}
    return max(ranks, key=lambda m: (-m.rank, m.attempt, m.begin_ns)).info


def _devices(reader: RunReader) -> dict[str, str]:
    """Accelerators that were measured: model and number of the card."""
    nodes = list(reader.nodes())
    cards = {}
    for node in nodes:
        for source in read_sources(node):
            if source.is_accelerator:
                where = source.device if len(nodes) == 1 else f"{node.name[5:]}/{source.device}"
                cards[where] = " ".join(filter(None, (source.model, source.uuid))) or "unknown"
    return {"accelerators": str(len(cards))} | dict(sorted(cards.items()))


def _texts(value: object, prefix: str = "") -> dict[str, str]:
    """Leaves of JSON by their path."""
    joint = " " if prefix == _VERSIONS else "."
    if isinstance(value, Mapping):
        leaves: dict[str, str] = {}
        for key, each in value.items():
            leaves |= _texts(each, f"{prefix}{joint}{key}" if prefix else str(key))
        return leaves
    if isinstance(value, list | tuple):
        leaves = {}
        for place, each in enumerate(value):
            leaves |= _texts(each, f"{prefix}[{place}]")
        return leaves
    return {prefix: str(value)}


def text(result: RunDifferences, width: int | None) -> str:
    """For a terminal of so many columns."""
    return "\n".join(_lines(result, width))


def _lines(result: RunDifferences, width: int | None) -> Iterator[str]:
    number = len(result.differences)
    if not number:
        yield f"{result.first} and {result.second} were made alike"
    else:
        yield f"{number} difference{'s' if number > 1 else ''} between"
        yield f"  A  {result.first}"
        yield f"  B  {result.second}"
    for group in dict.fromkeys(each.group for each in result.differences):
        rows = [
            [each.what, _short(each.first), _short(each.second)]
            for each in result.differences
            if each.group == group
        ]
        yield ""
        yield from Table(group, ["", "A", "B"], rows, frozenset({0, 1, 2})).lines(width)
    lines = {
        "the same": ", ".join(f"{group} ({n})" for group, n in result.same.items()),
        "not recorded of either": ", ".join(result.unknown),
    }
    for label, words in lines.items():
        if words:
            yield ""
            yield from textwrap.wrap(f"{label}: {words}", width or WIDTH, subsequent_indent="  ")


def _short(value: str | None) -> str:
    if value is None:
        return NOT_RECORDED
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"
