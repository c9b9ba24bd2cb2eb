"""Create runs, list them, find the one that the user means."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from ..errors import ForeignRunError, StoreError, UnknownRunError
from ..spelling import did_you_mean
from . import files, layout
from .new_files import is_own_folder, make_folder_here, owner_of_new_files
from .new_run_file import new_run_file
from .run_fields import RunFields, StartFields, chosen
from .sharing import make_run_folder, private_line, wanted
from .trainings import is_group, numbers, single
from .untrusted import is_regular

_MADE_ID = re.compile(r"\d{8}-\d{6}-[A-Za-z0-9._-]+\Z")  # as of :func:`new_run_id`


def new_run_id(name: str | None, wall_s: float) -> str:
    """A directory name: time, name, and a few characters that make it unique."""
    stamp = datetime.fromtimestamp(wall_s, tz=UTC).strftime("%Y%m%d-%H%M%S")
    tail = os.urandom(3).hex()
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name or "").strip("-.")[:40]
    return "-".join(part for part in (stamp, readable, tail) if part)


def create_run(directory: Path, run_id: str, *, shared: bool, fields: StartFields) -> Path:
    """Make the run directory and its first run.json.

    Args:
        shared: another rank may have made it; on another host than that one, this host's fields go
            to a separate file.
        fields: further fields of run.json; secrets are taken out of ``command`` and ``config``.

    Raises:
        ForeignRunError: another user made a directory of this name, or it is a link.
        StoreError: the directory cannot be made or written, or another host of this name is in it.
    """
    run = directory / run_id
    value = new_run_file({"id": run_id, "share": wanted(), **fields})
    try:
        directory.mkdir(parents=True, exist_ok=True)
        make_run_folder(run, value["share"], exist_ok=shared)
        if shared and not is_own_folder(run, owner_of_new_files(directory)):
            raise ForeignRunError(f"{run} is not a directory that this job made")
        make_folder_here(layout.members_dir(run))
        make_folder_here(layout.node_dir(run))
        if not files.create_json(run / layout.RUN_FILE, value):
            _join(run, value)
    except OSError as error:
        raise StoreError(f"cannot write runs to {directory}: {error.strerror}") from None
    return run


_OF_NODE = (
    "schema",
    "status",
    "started",
    "anchor",
    "begin_ns",
    "host",
    "boot_id",
    "pid_namespace",
    "python",
    "command",
)


def status_file(run: Path) -> Path:
    """Where this host's recorder says how it stands: run.json, or a guest's own."""
    guest = layout.node_file(run)
    return guest if guest.exists() else run / layout.RUN_FILE


def status_files(run: Path) -> list[Path]:
    """The same of all hosts that have begun."""
    return [run / layout.RUN_FILE, *run.glob("node-*/node.json")]


def _join(run: Path, value: RunFields) -> None:
    """Another rank made the run; the first of each further host says when that host began."""
    home = files.read_run_file(run)
    if home.get("host") != value["host"]:
        files.create_json(layout.node_file(run), chosen(value, _OF_NODE))
        return
    if home.get("boot_id") != value["boot_id"]:
        raise StoreError(
            f"two hosts of this job are both called {value['host']}: give each a "
            "name of its own with PROBE_NODE=…"
        )


def list_runs(directory: Path) -> list[Path]:
    """Run directories, newest first, without the parts of a job that were merged."""
    if not directory.is_dir():
        return []
    runs = [
        path.parent
        for path in directory.glob(f"*/{layout.RUN_FILE}")
        if not (path.parent / layout.MERGED).exists()
    ]
    return sorted(runs, key=_age_key, reverse=True)


def is_made_id(name: str) -> bool:
    """Whether a directory is named as :func:`new_run_id` does."""
    return _MADE_ID.match(name) is not None


def find_run(reference: str, directory: Path) -> Path:
    """The run that ``reference`` names: a directory, ``latest``, an id prefix or a name.

    With ``/3`` after it, the third training of that group. Of several runs with that name the
    newest is taken.

    Raises:
        UnknownRunError: none, or an ambiguous id prefix.
        StoreError: it is another user's, who keeps it private.
    """
    as_path = Path(reference).expanduser()
    if is_regular(as_path / layout.RUN_FILE):
        return as_path.absolute()
    group, slash, number = reference.rpartition("/")
    if slash and number.isdecimal() and len(number) < 7:
        return _training(find_run(group, directory), int(number))
    runs = list_runs(directory)
    if reference == "latest":
        if runs:
            return runs[0]
        raise UnknownRunError(
            f"there are no runs in {directory}: record one with `probe run -- python train.py`, "
            "or name the directory with --dir"
        )
    by_id = [run for run in runs if run.name == reference]
    by_prefix = [run for run in runs if run.name.startswith(reference)]
    by_name = [run for run in runs if _name(run) == reference]
    if len(by_prefix) > 1 and not by_id and not by_name:
        some = ", ".join(run.name for run in by_prefix[:3])
        raise UnknownRunError(f"{reference!r} begins {len(by_prefix)} run ids: {some}, …")
    for matches in (by_id, by_name, by_prefix):
        if matches:
            return matches[0]
    for folder in (as_path, directory / reference):
        if line := private_line(folder):
            raise StoreError(f"{folder} cannot be read: {line}")
    if as_path.is_dir():
        raise UnknownRunError(f"{as_path} is not a run directory: it has no {layout.RUN_FILE}")
    close = did_you_mean(reference, [*filter(None, map(_name, runs)), *(run.name for run in runs)])
    shown = close or f": `probe ls {directory}` shows what is there"
    raise UnknownRunError(f"no run {reference!r} in {directory}{shown}")


def _training(run: Path, number: int) -> Path:
    """One of the trainings of a group; the only one of a run that is none is the run."""
    there = numbers(run) or [1]
    if number not in there:
        least = f"{run.name} has {len(there)} training" + ("s" if len(there) > 1 else "")
        raise UnknownRunError(f"{least}, no number {number}")
    return layout.training_dir(run, number) if len(there) > 1 else run


def find_runs(reference: str, directory: Path) -> list[Path]:
    """All runs that ``reference`` means, oldest first.

    Args:
        reference: several references with commas, a name (all runs of that name), or what
            :func:`find_run` takes. Names may hold commas: see :func:`references`.

    Raises:
        UnknownRunError: one of them does not exist.
        UsageError: one of them is a group.
    """
    is_path = is_regular(Path(reference) / layout.RUN_FILE)
    parts = [reference] if is_path else references(reference, directory)
    if len(parts) > 1:
        return [run for part in parts for run in find_runs(part, directory)]
    reference = parts[0]
    named = [run for run in list_runs(directory) if _name(run) == reference]
    exact = is_path or is_regular(directory / reference / layout.RUN_FILE)
    alone = [run for run in named if not is_group(run)]
    if alone and not exact:
        return alone[::-1]
    return [single(find_run(reference, directory))]


def find_side(reference: str, directory: Path, left_out: list[str]) -> list[Path]:
    """All runs of a side of a comparison: of several references those that exist.

    Args:
        left_out: gets a line for each reference that does not.

    Raises:
        UnknownRunError: none of them exists.
        UsageError: one of them is a group.
    """
    if is_regular(Path(reference) / layout.RUN_FILE):
        return find_runs(reference, directory)
    runs: list[Path] = []
    lines = []
    parts = references(reference, directory)
    for part in parts:
        try:
            runs += find_runs(part, directory)
        except UnknownRunError as error:
            if len(parts) < 2:
                raise
            lines.append(f"{part} is left out: {error}")
    if not runs:
        raise UnknownRunError(f"none of the runs {', '.join(parts)} is in {directory}")
    left_out += lines
    return runs


def references(text: str, directory: Path) -> list[str]:
    """The references that a text with commas names.

    Names of runs may hold commas themselves: from the left, the most parts that together are the
    name of a run are one reference.
    """
    parts = [part for part in text.split(",") if part.strip()]
    if len(parts) < 2:
        return [parts[0].strip()] if parts else [text]
    names = {_name(run) for run in list_runs(directory)}
    single_references: list[str] = []
    while parts:
        ends = range(len(parts), 1, -1)
        end = next((end for end in ends if ",".join(parts[:end]).strip() in names), 1)
        single_references.append(",".join(parts[:end]).strip())
        parts = parts[end:]
    return single_references


def _name(run: Path) -> str | None:
    fields = files.read_fields(run / layout.RUN_FILE)
    name = None if fields is None else fields.get("name")
    return name if isinstance(name, str) else None


def _age_key(run: Path) -> tuple[str, str]:
    """Orders runs by their begin."""
    fields = files.read_fields(run / layout.RUN_FILE) or {}
    return str(fields.get("started") or ""), run.name
