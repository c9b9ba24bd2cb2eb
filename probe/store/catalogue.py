"""One summary per run of a directory, from run.json alone.

A group is one row, whose energy is that of all its trainings; theirs stand in its ``trainings``,
so whoever adds up the rows counts each joule once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ProbeError
from .layout import training_dir
from .reader import COUNTS, RunReader
from .runs import list_runs, private_runs
from .trainings import numbers


def summaries(directory: Path) -> list[dict[str, Any]]:
    """A summary per run, newest first; a run that cannot be read has the reason as ``problem``."""
    private = [_unread(run_id, "private", line) for run_id, line in private_runs(directory).items()]
    return [summary(path) for path in list_runs(directory)] + private


def summary(path: Path) -> dict[str, Any]:
    """The summary of one run; ``problem`` says why it cannot be read."""
    try:
        return _row(path, RunReader(path))
    except (ProbeError, OSError, ArithmeticError, LookupError, ValueError, TypeError) as error:
        problem = str(error) if isinstance(error, ProbeError) else f"{path} is damaged: {error}"
        return _unread(path.name, "unreadable", problem)


def _unread(run_id: str, status: str, problem: str) -> dict[str, Any]:
    about = {"id": run_id, "name": "", "status": status, "problem": problem}
    return dict.fromkeys(_FIELDS) | about


def _row(path: Path, reader: RunReader) -> dict[str, Any]:
    meta = reader.meta
    hosts = [meta, *reader.guests.values()]
    total, logged = (_sum([host.get(key) or {} for host in hosts]) for key in ("total", "logged"))
    return {
        "id": path.name if reader.training is None else reader.id,
        "name": meta.get("name") or "",
        "status": str(reader.status),
        "started": meta.get("started"),
        "duration_s": (reader.end_ns() - reader.begin_ns) / 1e9,
        "steps": meta.get("steps"),
        "energy_j": total.get("energy_j"),
        "modelled_energy_j": total.get("modelled_energy_j"),
        "samples": logged.get("samples"),
        "tokens": logged.get("tokens"),
        "power": meta.get("power"),
        "problem": None,
    } | _of_group(path, reader)


def _of_group(path: Path, reader: RunReader) -> dict[str, Any]:
    """The trainings of a group; whether one of them shares its energy with others."""
    if reader.is_group:
        return {"trainings": [summary(training_dir(path, number)) for number in numbers(path)]}
    return {"shared": bool(reader.meta.get("shared"))} if reader.training is not None else {}


def _sum(parts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Joules and counts of all hosts; a value that no host has is left out."""
    return {
        name: sum(part[name] for part in parts if part.get(name) is not None)
        for name in _SUMMED
        if any(part.get(name) is not None for part in parts)
    }


_SUMMED = ("energy_j", "modelled_energy_j", *COUNTS)
_FIELDS = (
    "id",
    "name",
    "status",
    "started",
    "duration_s",
    "steps",
    "energy_j",
    "modelled_energy_j",
    "samples",
    "tokens",
    "power",
    "problem",
)
