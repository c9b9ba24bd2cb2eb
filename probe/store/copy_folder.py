"""Copy a folder of a run that came from somebody else: regular files, as new ones, and no links."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from .new_files import open_new
from .untrusted import is_trusted_folder, opened

_DEEPEST = 3  # node-<host>/rank-<n>/cold
_LARGEST = 2 << 30  # a larger one is no file of ours, and may be zeros that a copy would write out


def copy_folder(source: Path, target: Path, left_out: list[str], depth: int = 1) -> None:
    """Copy ``source`` to ``target``, which must not exist; modes are those of new files.

    Args:
        source: a folder of a run.
        target: its copy.
        left_out: gets the paths of links, special files, and files that are not of the run's owner.
        depth: of ``source`` in the run.

    Raises:
        OSError: no space, no right.
    """
    target.mkdir()
    with os.scandir(source) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        path = source / name
        if is_trusted_folder(path) and depth < _DEEPEST:
            copy_folder(path, target / name, left_out, depth + 1)
        elif not _copy_file(path, target / name):
            left_out.append(str(path))


def _copy_file(source: Path, target: Path) -> bool:
    """Copy a regular file that its run's owner wrote; False if it is none. Raises OSError."""
    with contextlib.ExitStack() as files:
        try:
            file = files.enter_context(opened(source, _LARGEST))
        except OSError:
            return False
        shutil.copyfileobj(file, files.enter_context(open_new(target)), 1 << 20)
    return True
