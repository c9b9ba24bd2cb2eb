"""Where everything lies in a run directory."""

from __future__ import annotations

import os
import re
from pathlib import Path

RUN_FILE = "run.json"
MERGED = "merged.json"  # in a part of a job whose joules are in the job's run now
DEFAULT_DIR = "runs"


def runs_dir(explicit: str | os.PathLike[str] | None = None) -> Path:
    """The directory of runs: the argument, else PROBE_DIR, else ./runs."""
    return Path(explicit or os.environ.get("PROBE_DIR") or DEFAULT_DIR).expanduser().absolute()


def node_name() -> str:
    """This host's name, fit for a file name; PROBE_NODE where two hosts are called the same."""
    name = os.environ.get("PROBE_NODE") or os.uname().nodename
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name) or "localhost"


def members_dir(run: Path) -> Path:
    """Files of the processes that belong to the run."""
    return run / "members"


def node_dir(run: Path, node: str | None = None) -> Path:
    """What the recorder of one node writes."""
    return run / f"node-{node or node_name()}"


def node_file(run: Path, node: str | None = None) -> Path:
    """How a host stands that joined the run of another one; fields as in run.json."""
    return node_dir(run, node) / "node.json"


def rank_dir(run: Path, rank: int, guest: str | None = None) -> Path:
    """The edges and the ledger of one rank; a launcher (`probe run`) has rank −1.

    Args:
        guest: the host that recorded it, if that is not the one that made the run. (After an
            elastic restart two hosts may both have had a rank of that number.)
    """
    base = run if guest is None else node_dir(run, guest)
    return base / "launcher" if rank < 0 else base / f"rank-{rank:05d}"


def statistics_path(run: Path, source: str, node: str | None = None) -> Path:
    """The estimator's statistics of one counter."""
    return node_dir(run, node) / f"statistics-{re.sub(r'[^A-Za-z0-9.-]+', '-', source)}.npz"


def summary_path(run: Path, node: str | None = None) -> Path:
    """What a node's recorder summed up, so that a report need not read all samples and edges."""
    return node_dir(run, node) / "summary.npz"


def lease_path(run: Path, epoch: int, node: str | None = None) -> Path:
    """Existing means: a recorder with this fencing number was started on the node."""
    return node_dir(run, node) / f"lease-{epoch}"


def dashboard_path(directory: Path) -> Path:
    """Who serves the dashboard of a directory of runs."""
    return directory / ".dashboard.json"
