"""Where everything lies in a run directory."""

from __future__ import annotations

import os
import re
from pathlib import Path

RUN_FILE = "run.json"
DEFAULT_DIR = "runs"


def runs_dir(explicit: str | os.PathLike[str] | None = None) -> Path:
    """The directory of runs: the argument, else PROBE_DIR, else ./runs."""
    return Path(explicit or os.environ.get("PROBE_DIR") or DEFAULT_DIR).expanduser().absolute()


def node_name() -> str:
    """This host's name, fit for a file name."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", os.uname().nodename) or "localhost"


def members_dir(run: Path) -> Path:
    """Files of the processes that belong to the run."""
    return run / "members"


def node_dir(run: Path, node: str | None = None) -> Path:
    """What the recorder of one node writes."""
    return run / f"node-{node or node_name()}"


def rank_dir(run: Path, rank: int) -> Path:
    """The edges and the ledger of one rank; a launcher (`probe run`) has rank −1."""
    if rank < 0:
        return run / "launcher"
    return run / f"rank-{rank:05d}"


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
