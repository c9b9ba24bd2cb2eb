"""A process of the job, as it describes itself to the recorder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..model import DeviceRequest
from . import files
from .field_kinds import is_whole
from .layout import members_dir, seat_of
from .processes import is_alive
from .run_fields import ProcessFields

ROLES = ("rank", "launcher")
SHARED_MEMORY = Path("/dev/shm")
# What RingPlace makes: user, run, rank, process and number of its watch.
_PREFIX = re.compile(r"phasewatt-\d+-[A-Za-z0-9._-]+--?\d+-\d+\.\d+-\Z", re.ASCII)
_WHOLE = (
    "rank",
    "local_world_size",
    "world_size",
    "pid",
    "start_ticks",
    "begin_ns",
    "attempt",
    "attempts_left",
    "training",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process; ``role`` is ``rank`` (it trains) or ``launcher`` (`probe run`, it only waits)."""

    role: str
    rank: int
    local_rank: int | None
    local_world_size: int
    world_size: int
    host: str
    boot_id: str
    pid: int
    start_ticks: int
    begin_ns: int
    rings: str  # directory of its rings
    prefix: str  # their names start so
    request: DeviceRequest
    info: ProcessFields = field(default_factory=ProcessFields)
    attempt: int = 0  # how often the launcher had started the ranks again
    attempts_left: int = 0  # and how often it still would
    launcher: tuple[int, int] = (0, 0)  # its pid and start
    training: int = 1  # which of the trainings below one `probe run`

    @property
    def seat(self) -> int:
        """Its place among the ranks of all trainings of the run; −1 for a launcher."""
        return seat_of(self.training, self.rank) if self.role == "rank" else -1

    @property
    def file_name(self) -> str:
        """The name of its file in the run's ``members`` folder, unique in the run."""
        return f"{self.role}-{self.rank:05d}-{self.pid}-{self.begin_ns}.json"

    def write(self, run: Path) -> None:
        """Publish it in the run directory. Raises OSError."""
        files.write_json(members_dir(run) / self.file_name, asdict(self), checked=True)

    def ring_paths(self, run: Path) -> list[Path]:
        """Its rings, the main thread's first.

        None where no rings are ever put, or if their names are not such as we give: a member's
        file may say anything, and a search of the whole file system would take its time.

        Args:
            run: the directory that its file lies in.
        """
        if not _PREFIX.match(self.prefix) or not _holds_rings(self.rings, run):
            return []
        try:
            with os.scandir(self.rings) as entries:
                names = [
                    entry.name
                    for entry in entries
                    if entry.name.startswith(self.prefix) and entry.name.endswith(".ring")
                ]
        except OSError:
            return []
        paths = (Path(self.rings, name) for name in sorted(names))
        return [path for path in paths if _is_of_the_run(path, run)]

    def starts_again(self) -> bool:
        """True if its launcher is alive and would restart the ranks."""
        return self.attempts_left > 0 and is_alive(*self.launcher)

    def alive(self) -> bool:
        """True while the process runs; meaningful on its own host and boot only."""
        return is_alive(self.pid, self.start_ticks)


def members_of_process(run: Path, pid: int) -> int:
    """How many files of members there are by this process id."""
    try:
        names = os.listdir(members_dir(run))
    except OSError:
        return 0
    return sum(name.split("-")[2:3] == [str(pid)] for name in names)


def read_members(run: Path, damaged: Callable[[Path], None] = lambda _: None) -> list[Member]:
    """All members of the run, in order of rank; files that are damaged or not ours are skipped.

    Args:
        run: its directory.
        damaged: hears of those that are ours.
    """
    members = []
    for path in sorted(members_dir(run).glob("*.json")):
        value = files.read_json(path, damaged=damaged)
        member = _member(value)
        if member is not None:
            members.append(member)
        elif value is not None:
            damaged(path)
    return members


def _member(value: Any) -> Member | None:
    """The member that a file describes; None unless each field is of its kind."""
    try:
        request = value["request"]
        uuids = tuple(request.get("uuids") or ())
        launcher = tuple(value.get("launcher") or (0, 0))
        member = Member(
            **value
            | {"request": DeviceRequest(**(request | {"uuids": uuids})), "launcher": launcher}
        )
    except (TypeError, KeyError, AttributeError):
        return None
    integers = [getattr(member, name) for name in _WHOLE] + list(launcher)
    if member.local_rank is not None:
        integers.append(member.local_rank)
    words = (member.host, member.boot_id, member.rings, member.prefix)
    plain = (
        member.role in ROLES
        and len(launcher) == 2
        and all(is_whole(number) for number in integers)
        and all(isinstance(word, str) and "\0" not in word for word in words)
        and isinstance(member.info, dict)
    )
    return member if plain else None


def _holds_rings(folder: str, run: Path) -> bool:
    """Whether RingPlace would put a ring of this run there."""
    places = {str(SHARED_MEMORY), "/tmp", str(Path(os.environ.get("TMPDIR", "/tmp")))}
    if folder in places:
        return True
    try:
        return os.path.samestat(os.stat(folder), os.lstat(run / "rings"))
    except (OSError, ValueError):
        return False


def _is_of_the_run(ring: Path, run: Path) -> bool:
    """Whether a ring is a regular file of the owner of the run, of root, or of this process.

    Rings in memory belong to whoever trained, also where a file server gives the run to another.
    """
    try:
        status = os.lstat(ring)
        owners = {0, os.geteuid(), os.stat(run).st_uid}
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid in owners
