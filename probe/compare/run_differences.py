"""What two runs were made with, and where that differs: code, packages, torch, data, machine.

A run that was recorded before these were kept has nothing to say of them: "not recorded".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..model import SCHEMA_VERSION
from ..report.text_tables import Table
from ..store.members import read_members
from ..store.reader import RunReader

NOT_RECORDED = "not recorded"
_OF_TORCH = ("torch", "model_hash")
_OF_THE_MACHINE = ("os", "cpu_model", "cpu_count", "memory_bytes", "driver")
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs; ``first`` and ``second`` are None where it was not recorded."""

    group: str
    what: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifferences:
    """Where two runs differ. ``same`` counts what agrees, by group."""

    first: str
    second: str
    differences: tuple[Difference, ...]
    same: Mapping[str, int]
    schema: int = SCHEMA_VERSION


def run_differences(first: Path, second: Path) -> RunDifferences:
    """Compare what two stored runs kept of how they were made. Raises StoreError."""
    kept = [_kept(path) for path in (first, second)]
    differences, same = [], dict[str, int]()
    for group in dict.fromkeys([*kept[0], *kept[1]]):
        sides = [side.get(group) for side in kept]
        if any(side is None for side in sides) or not all(sides):
            if sides[0] != sides[1]:
                values = [None if not side else f"{len(side)} values" for side in sides]
                differences.append(
                    Difference(group=group, what="all of it", first=values[0], second=values[1])
                )
            continue
        before, after = ({} if side is None else side for side in sides)
        for what in dict.fromkeys([*before, *after]):
            pair = before.get(what, "absent"), after.get(what, "absent")
            if pair[0] == pair[1]:
                same[group] = same.get(group, 0) + 1
            else:
                differences.append(
                    Difference(group=group, what=what, first=pair[0], second=pair[1])
                )
    return RunDifferences(
        first=first.name, second=second.name, differences=tuple(differences), same=same
    )


def _kept(path: Path) -> dict[str, dict[str, str]]:
    """What a run kept, by group and name; an empty group was not recorded."""
    meta = RunReader(path).meta
    ranks = [member for member in read_members(path) if member.role == "rank"]
    info = ranks[0].info if ranks else {}
    machine = meta.get("machine") or {}
    versions = machine.get("versions")
    torch = {name: str(value) for name, value in meta.items() if name in _OF_TORCH and value}
    return {
        "code": _texts(meta.get("code") or {}),
        "command": {"command": " ".join(meta.get("command") or ())} if meta.get("command") else {},
        "packages": _texts(meta.get("packages") or {}),
        "torch": torch | _texts(info.get("torch_state") or {}),
        "environment": _texts(info.get("environment") or {}) | ({"": ""} if info else {}),
        "config": _texts(meta.get("config") or {}) | {"data": str(meta.get("data") or "unknown")},
        "machine": {name: str(machine[name]) for name in _OF_THE_MACHINE if name in machine}
        | {"host": str(meta.get("host") or ""), "python": str(meta.get("python") or "")}
        | {"ranks": str(meta.get("ranks") or 1)}
        | _texts(versions if isinstance(versions, Mapping) else {}),
    }


def _texts(value: object, prefix: str = "") -> dict[str, str]:
    """Leaves of JSON by their path."""
    if isinstance(value, Mapping):
        leaves: dict[str, str] = {}
        for key, each in value.items():
            leaves |= _texts(each, f"{prefix}.{key}" if prefix else str(key))
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
    if result.same:
        yield ""
        yield "the same: " + ", ".join(f"{group} ({n})" for group, n in result.same.items())


def _short(value: str | None) -> str:
    if value is None:
        return NOT_RECORDED
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"
