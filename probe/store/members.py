"""A process of the job, as it describes itself to the recorder."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..model import DeviceRequest
from . import files
from .layout import members_dir
from .processes import is_alive


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
    info: dict[str, Any] = field(default_factory=dict)  # model hash, versions, …
    attempt: int = 0  # how often the launcher had started the ranks again
    attempts_left: int = 0  # and how often it still would
    launcher: tuple[int, int] = (0, 0)  # its pid and start

    @property
    def file_name(self) -> str:
        """The name of its file in the run's ``members`` folder, unique in the run."""
        return f"{self.role}-{self.rank:05d}-{self.pid}-{self.begin_ns}.json"

    def write(self, run: Path) -> None:
        """Publish it in the run directory. Raises OSError."""
        files.write_json(members_dir(run) / self.file_name, asdict(self))

    def ring_paths(self) -> list[Path]:
        """Its rings, the main thread's first."""
        return sorted(Path(self.rings).glob(f"{self.prefix}*.ring"))

    def starts_again(self) -> bool:
        """True if its launcher is alive and would restart the ranks."""
        return self.attempts_left > 0 and is_alive(*self.launcher)

    def alive(self) -> bool:
        """True while the process runs; meaningful on its own host and boot only."""
        return is_alive(self.pid, self.start_ticks)


def read_members(run: Path) -> list[Member]:
    """All members of the run, in order of rank; unreadable files are skipped."""
    members = []
    for path in sorted(members_dir(run).glob("*.json")):
        with contextlib.suppress(TypeError, KeyError, AttributeError):
            value = files.read_json(path)
            request = value["request"]
            uuids = tuple(request.get("uuids") or ())
            value["request"] = DeviceRequest(**(request | {"uuids": uuids}))
            value["launcher"] = tuple(value.get("launcher") or (0, 0))
            members.append(Member(**value))
    return members
