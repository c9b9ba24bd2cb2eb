"""One row per run of a directory.

A group is one row, whose energy is that of all its trainings; theirs stand in its ``trainings``,
so whoever adds up the rows counts each joule once.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from ...errors import ProbeError
from ...model import RunStatus
from .. import files
from ..layout import LABELS_FILE, training_dir
from ..live import read_live
from ..node_files import accelerators_of_node
from ..run_fields import PowerFields, RunFields, scheduler_of
from ..trainings import numbers, place_of
from .labels import Labels, read_labels

if TYPE_CHECKING:
    from ...report.model import JsonValue

_LONGEST_CONFIG = 2000  # characters that are searched
_MOST_DEPTH = 4


class Hungriest(TypedDict):
    """The phase that takes most: its share, 0 to 1, ``of`` the energy or of the time."""

    phase: str
    share: float
    of: str


class RunSummary(TypedDict):
    """A row of the list of runs, the JSON of ``probe ls``; what is not known is None.

    ``status`` is that of the run, ``private`` or ``unreadable``; then ``problem`` says why, and all
    else but ``id`` is empty. ``power`` is the mean in a few bins. Of a group ``trainings`` has a
    row for each; of such a training ``shared`` says whether a meter's joules are the group's.
    A run of the ``simulated`` card has no energy here, so that no sum of rows counts it.
    ``power_w`` is the power now of a run that goes on, where :func:`with_live` has added it.

    ``co2e_g`` and ``modelled_co2e_g`` are grams, as the recorder weighted them; ``g_per_kwh`` is
    the intensity that it knew. ``devices`` counts accelerators, or hosts where there is none.
    ``job`` is the batch job's id, of an array ``<array>_<task>``; it, ``account`` and ``user`` are
    empty outside of one.
    ``config`` is the configuration as ``key=value`` words. ``hungriest`` is there where somebody
    has read the whole run already (``probe dashboard`` does, for the rows that it shows).
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
    host: str
    job: str
    account: str
    user: str
    devices: int | None
    co2e_g: float | None
    modelled_co2e_g: float | None
    g_per_kwh: float | None
    config: str
    hungriest: Hungriest | None
    tags: list[str]
    note: str
    archived: bool
    trainings: NotRequired[list[RunSummary]]
    shared: NotRequired[bool]
    power_w: NotRequired[float | None]
    simulated: NotRequired[bool]


# What readers raise at a run of which a file is damaged.
_UNREADABLE = (
    ProbeError, OSError, ArithmeticError, LookupError, ValueError, TypeError, AttributeError
)  # fmt: skip


def private_summary(run_id: str, line: str) -> RunSummary:
    """The row of a run that its owner keeps private; ``line`` says how that is changed."""
    return empty_row(run_id, "private", line)


def summary(path: Path) -> RunSummary:
    """The summary of one run; ``problem`` says why it cannot be read."""
    try:
        return _quickly(path) or _thoroughly(path)
    except _UNREADABLE as error:
        problem = str(error) if isinstance(error, ProbeError) else f"{path} is damaged: {error}"
        return empty_row(path.name, "unreadable", problem)


def with_labels(row: RunSummary, labels: Labels) -> RunSummary:
    """The row with what people said of the run."""
    return row | {"tags": list(labels.tags), "note": labels.note, "archived": labels.archived}


def lacks_energy(row: RunSummary) -> bool:
    """Whether the run was killed, or its host was lost, before its energy was written down."""
    unknown = row["energy_j"] is None and row["modelled_energy_j"] is None
    killed = row["problem"] is None and row["status"] in ("killed", "lost")
    return killed and unknown and not row.get("trainings") and not row.get("simulated")


def with_live(directory: Path, row: RunSummary) -> RunSummary:
    """The row with what the recorders of the run know now, if it goes on; any other as it is.

    ``directory`` is that of the runs.
    """
    if row["status"] != RunStatus.RUNNING or row.get("simulated"):
        return row
    live = read_live(directory / row["id"])
    if live is None:
        return row
    return row | {
        "energy_j": live.energy_j(),
        "modelled_energy_j": live.modelled_energy_j(),
        "steps": max(page.steps for page in live.pages),
        "power_w": live.power_w(),
    }


def empty_row(run_id: str, status: str, problem: str | None = None) -> RunSummary:
    """A row of which nothing else is known."""
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
        "host": "",
        "job": "",
        "account": "",
        "user": "",
        "devices": None,
        "co2e_g": None,
        "modelled_co2e_g": None,
        "g_per_kwh": None,
        "config": "",
        "hungriest": None,
        "tags": [],
        "note": "",
        "archived": False,
    }


def _quickly(path: Path) -> RunSummary | None:
    """The row of a run of one host that says how it ended, from run.json; None of any other."""
    names = os.listdir(path)
    if any(name.startswith("training-") and name != "training-1" for name in names):
        return None
    if place_of(path) is not None:
        return None
    meta = files.read_run_file(path)
    nodes = [name for name in names if name.startswith("node-")]
    if len(nodes) > 1 or meta.get("status", RunStatus.RUNNING) == RunStatus.RUNNING:
        return None
    end_ns = meta.get("end_ns")
    if not end_ns:
        return None
    row = _row(path, meta, [meta], path.name, str(meta["status"]), end_ns - meta["begin_ns"])
    return with_labels(row, read_labels(path)) if LABELS_FILE in names else row


def _thoroughly(path: Path) -> RunSummary:
    from ..reader import RunReader  # loads pyarrow

    reader = RunReader(path)
    meta, hosts = reader.meta, [reader.meta, *reader.guests.values()]
    run_id = path.name if reader.training is None else reader.id
    row = _row(path, meta, hosts, run_id, str(reader.status), reader.end_ns() - reader.begin_ns)
    if reader.is_group:
        row["trainings"] = [summary(training_dir(path, number)) for number in numbers(path)]
    elif reader.training is not None:
        row["shared"] = bool(meta.get("shared"))
    return with_labels(row, read_labels(path)) if reader.training is None else row


def _row(
    path: Path, meta: RunFields, hosts: list[RunFields], run_id: str, status: str, lasted_ns: int
) -> RunSummary:
    # A host that was lost wrote no total: the sum of the others would be no sum of the run.
    has_all_totals = all(host.get("total") is not None for host in hosts)
    totals = [host.get("total") or {} for host in hosts] if has_all_totals else []
    logged = [host.get("logged") or {} for host in hosts]
    carbon = meta.get("carbon") or {}
    row = empty_row(run_id, status)
    row |= {
        "name": meta.get("name") or "",
        "started": meta.get("started"),
        "duration_s": lasted_ns / 1e9,
        "steps": meta.get("steps"),
        "energy_j": _sum("energy_j", totals),
        "modelled_energy_j": _sum("modelled_energy_j", totals),
        "samples": _sum("samples", logged),
        "tokens": _sum("tokens", logged),
        "power": _in_whole_watts(meta.get("power")),
        "host": meta.get("host") or "",
        "devices": _devices(path, hosts),
        "co2e_g": _sum("co2e_g", totals),
        "modelled_co2e_g": _sum("modelled_co2e_g", totals),
        "g_per_kwh": _number(carbon.get("g_per_kwh")),
        "config": _words_of(meta.get("config")),
    }
    job = scheduler_of(meta) or {}
    row |= {"job": _job_id(job), "account": job.get("account", ""), "user": job.get("user", "")}
    if meta.get("simulated"):
        row |= {"simulated": True, "energy_j": None, "modelled_energy_j": None, "power": None}
        row |= {"co2e_g": None, "modelled_co2e_g": None}
    return row


def _in_whole_watts(power: PowerFields | None) -> PowerFields | None:
    """Power for a sparkline: decimals that it does not show take long to read in a long list."""
    try:
        watts = (power or {}).get("power_w") or []
        if power is None or not all(map(math.isfinite, watts)) or max(watts, default=0) < 100:
            return power
        return {**power, "power_w": [round(value) for value in watts]}
    except (TypeError, AttributeError):  # run.json of another program
        return None


def _job_id(job: Mapping[str, str]) -> str:
    array, task = job.get("array_job_id"), job.get("array_task_id")
    return f"{array}_{task}" if array and task else job.get("job_id", "")


def _devices(path: Path, hosts: list[RunFields]) -> int:
    """Accelerators of all hosts; of older runs only the files of their nodes say which."""
    said = [host.get("accelerators") for host in hosts]
    if None in said:
        group = place_of(path)
        nodes = (path if group is None else group[0]).glob("node-*")
        return sum(map(accelerators_of_node, nodes)) or len(hosts)
    return sum(filter(None, said)) or len(hosts)


def _words_of(config: object) -> str:
    """``lr=0.1 optimizer.name=adam``, as somebody would search for it."""
    words: list[str] = []

    def add(value: object, name: str, depth: int) -> None:
        if isinstance(value, Mapping) and depth < _MOST_DEPTH:
            for key, inner in value.items():
                add(inner, f"{name}.{key}" if name else str(key), depth + 1)
        else:
            words.append(f"{name}={value}")

    if isinstance(config, Mapping):
        add(config, "", 0)
    return " ".join(words)[:_LONGEST_CONFIG]


def _sum(name: str, hosts: Iterable[Mapping[str, JsonValue]]) -> float | None:
    """Joules or a count of all hosts; None if no host has it.

    Raises:
        TypeError: what a host has is no number.
    """
    values = [value for host in hosts if (value := _number(host.get(name))) is not None]
    return sum(values) if values else None


def _number(value: object) -> float | None:
    if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
        raise TypeError(f"{value!r} is no number"[:80])
    return value
