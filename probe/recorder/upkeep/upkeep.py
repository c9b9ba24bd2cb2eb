"""Looks after all segments of this node, folder by folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ...errors import ProbeError
from ...store import layout
from ...store.sealed_files import Fence
from ...store.untrusted import is_trusted_folder
from .folder import FolderUpkeep

_RANKS = ("rank-*", "launcher", "training-*/rank-*")


class SupersededError(ProbeError):
    """A newer recorder has taken over: this one writes and removes nothing more."""


def fence_of(run: Path, epoch: int) -> Fence:
    """What raises :class:`SupersededError` once a newer recorder was started on this node."""
    next_lease = layout.lease_path(run, epoch + 1)

    def check() -> None:
        if next_lease.exists():
            raise SupersededError(f"recorder {epoch} was replaced")

    return check


class Upkeep:
    """Joins and thins the segments that this node's recorders have written."""

    def __init__(self, run: Path, epoch: int, fence: Fence, guest: str | None = None):
        """Look at nothing yet.

        Args:
            run: its directory.
            epoch: this recorder's fencing number.
            fence: see :func:`fence_of`.
            guest: this host, if another one made the run.
        """
        self._node = layout.node_dir(run)
        self._ranks = layout.rank_dir(run, 0, guest).parent
        self._epoch, self._fence = epoch, fence
        self._folders: dict[Path, FolderUpkeep] = {}

    def tidy(
        self,
        now_ns: int,
        failed: Callable[[str], object] = lambda _: None,
        enough: Callable[[], bool] = lambda: False,
    ) -> int:
        """Do what is due; how many steps that were.

        Args:
            now_ns: by the recorder's clock.
            failed: hears what could not be done, and stays as it was.
            enough: asked between two steps; the rest is done another time.

        Raises:
            SupersededError: this recorder was replaced.
        """
        done = 0
        for folder in self._all():
            for what, work in folder.steps(now_ns):
                if enough():
                    return done
                try:
                    work()
                    done += 1
                except SupersededError:
                    raise
                except Exception as error:
                    failed(f"{what}: {type(error).__name__}: {error}")
        return done

    def _all(self) -> Iterator[FolderUpkeep]:
        ranks = [path for pattern in _RANKS for path in sorted(self._ranks.glob(pattern))]
        for path in [self._node, *ranks]:
            if is_trusted_folder(path):
                if path not in self._folders:
                    self._folders[path] = FolderUpkeep(path, self._epoch, self._fence)
                yield self._folders[path]
