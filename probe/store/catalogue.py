"""One summary per run of a directory, from run.json alone.

A group is one row, whose energy is that of all its trainings; theirs stand in its ``trainings``,
so whoever adds up the rows counts each joule once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from ..errors import ProbeError
from .layout import training_dir
from .reader import RunReader
from .run_fields import PowerFields
from .runs import list_runs, private_runs
from .trainings import numbers

if TYPE_CHECKING:
    from ..report.model import JsonValue


class RunSummary(TypedDict):
    """A row of the list of runs, the JSON of ``probe ls``; what is not known is None.

    ``status`` is that of the run, ``private`` or ``unreadable``; then ``problem`` says why, and all
    else but ``id`` is empty. ``power`` is the mean in a few bins. Of a group ``trainings`` has a
    row for each; of such a training ``shared`` says whether a meter's joules are the group's.
    A run of the ``simulated`` card has no energy here, so that no sum of rows counts it.
    ``power_w`` is the power now of a run that goes on, where the dashboard has added it.
    """

    id: str
    name: str
    status: str
    started: str | None
    duration_s: float | None
    steps: int | None
    energy_j: float | None
    modelled_energy_j: float | None
    samples: float | None
    tokens: float | None
    power: PowerFields | None
    problem: str | None
    trainings: NotRequired[list[RunSummary]]
    shared: NotRequired[bool]
    power_w: NotRequired[float | None]
    simulated: NotRequired[bool]


def summaries(directory: Path) -> list[RunSummary]:
    """A summary per run, newest first; a run that cannot be read has the reason as ``problem``."""
    return [summary(path) for path in list_runs(directory)] + private_summaries(directory)


def private_summaries(directory: Path) -> list[RunSummary]:
    """A row for each run that its owner keeps private; its ``problem`` says how that is changed."""
    return [_unread(run_id, "private", line) for run_id, line in private_runs(directory).items()]


def summary(path: Path) -> RunSummary:
    """The summary of one run; ``problem`` says why it cannot be read."""
    try:
        return _row(path, RunReader(path))
    except (ProbeError, OSError, ArithmeticError, LookupError, ValueError, TypeError) as error:
        problem = str(error) if isinstance(error, ProbeError) else f"{path} is damaged: {error}"
        return _unread(path.name, "unreadable", problem)


def _unread(run_id: str, status: str, problem: str) -> RunSummary:
    return {
        "id": run_id,
        "name": "",
        "status": status,
        "started": None,
        "duration_s": None,
        "steps": None,
        "energy_j": None,
        "modelled_energy_j": None,
        "samples": None,
        "tokens": None,
        "power": None,
        "problem": problem,
    }


def _row(path: Path, reader: RunReader) -> RunSummary:
    meta = reader.meta
    hosts = [meta, *reader.guests.values()]
    totals = [host.get("total") or {} for host in hosts]
    logged = [host.get("logged") or {} for host in hosts]
    row: RunSummary = {
        "id": path.name if reader.training is None else reader.id,
        "name": meta.get("name") or "",
        "status": str(reader.status),
        "started": meta.get("started"),
        "duration_s": (reader.end_ns() - reader.begin_ns) / 1e9,
        "steps": meta.get("steps"),
        "energy_j": _sum("energy_j", totals),
        "modelled_energy_j": _sum("modelled_energy_j", totals),
        "samples": _sum("samples", logged),
        "tokens": _sum("tokens", logged),
        "power": meta.get("power"),
        "problem": None,
    }
    if meta.get("simulated"):
        row |= {"simulated": True, "energy_j": None, "modelled_energy_j": None, "power": None}
    if reader.is_group:
        row["trainings"] = [summary(training_dir(path, number)) for number in numbers(path)]
    elif reader.training is not None:
        row["shared"] = bool(meta.get("shared"))
    return row


def _sum(name: str, hosts: Iterable[Mapping[str, JsonValue]]) -> float | None:
    """Joules or a count of all hosts; None if no host has it.

    Raises:
        TypeError: what a host has is no number.
    """
    total: float | None = None
    for host in hosts:
        value = host.get(name)
        if value is not None:
            if not isinstance(value, int | float):
                raise TypeError(f"{name} is no number")
            total = value if total is None else total + value
    return total
