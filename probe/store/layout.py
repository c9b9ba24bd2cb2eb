"""Where everything lies in a run directory."""

from __future__ import annotations

import os
import re
from pathlib import Path

RUN_FILE = "run.json"
ABLATION_FILE = "ablation.json"  # of a folder of `probe ablate`
CARDS_FILE = "cards.json"  # of a folder of `probe card`
SEARCH_FILE = "search.json"  # of a folder of `probe search`
MERGED = "merged.json"  # in a part of a job whose joules are in the job's run now
LABELS_FILE = "labels.json"  # tags and a note, by the run's owner
LOOKED_FILE = "looked"  # touched by every viewer of phases; its readers may write it
DEFAULT_DIR = "runs"
# Ranks of the trainings below one `probe run` are told apart by their seat: rank r of the k-th
# training has seat (k - 1) * SEATS + r. So the only training of a run has its ranks for seats.
SEATS = 100_000


def runs_dir(explicit: str | os.PathLike[str] | None = None) -> Path:
    """The directory of runs: the argument, else PROBE_DIR, else ./runs."""
    return Path(explicit or os.environ.get("PROBE_DIR") or DEFAULT_DIR).expanduser().absolute()


def is_default(explicit: str | os.PathLike[str] | None) -> bool:
    """Whether nobody has said where runs go."""
    return not (explicit or os.environ.get("PROBE_DIR"))


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


def seat_of(number: int, rank: int) -> int:
    """The seat of a rank of the training with this number, from 1."""
    return (number - 1) * SEATS + rank


def training_dir(run: Path, number: int) -> Path:
    """What is known of one of the trainings below one `probe run`, from 1."""
    return run / f"training-{number}"


def rank_dir(run: Path, rank: int, guest: str | None = None) -> Path:
    """The edges and the ledger of one rank; a launcher (`probe run`) has rank −1.

    Args:
        rank: or seat; those of the second and each further training lie in its directory.
        guest: the host that recorded it, if that is not the one that made the run. (After an
            elastic restart two hosts may both have had a rank of that number.)
    """
    base = run if guest is None else node_dir(run, guest)
    if rank < 0:
        return base / "launcher"
    before, rank = divmod(rank, SEATS)
    return (training_dir(base, before + 1) if before else base) / f"rank-{rank:05d}"


def stacks_path(run: Path, number: int, rank: int) -> Path:
    """Stacks of the threads of a rank that hung, as it wrote them itself.

    Args:
        run: its directory.
        number: of its training, from 1.
        rank: in it.
    """
    folder = run if number <= 1 else training_dir(run, number)
    return folder / f"hang-rank{rank}.txt"


def statistics_path(run: Path, source: str, node: str | None = None) -> Path:
    """The estimator's statistics of one counter."""
    return node_dir(run, node) / f"statistics-{re.sub(r'[^A-Za-z0-9.-]+', '-', source)}.npz"


def summary_path(run: Path, node: str | None = None) -> Path:
    """What a node's recorder summed up, so that a report need not read all samples and edges."""
    return node_dir(run, node) / "summary.npz"


def lease_path(run: Path, epoch: int, node: str | None = None) -> Path:
    """Existing means: a recorder with this fencing number was started on the node."""
    return node_dir(run, node) / f"lease-{epoch}"


def tape_path(run: Path) -> Path:
    """The true power of the simulated card, in a run of `probe demo`."""
    return node_dir(run) / "simulated-power"


def dashboard_path(directory: Path) -> Path:
    """Who serves the dashboard of a directory of runs."""
    return directory / ".dashboard.json"
