"""What a child of ours may import: the libraries of its parent, and nothing of a directory.

``python -m`` and ``python -c`` look for modules in the working directory first, where a user's
queue.py, or somebody's probe.py, may lie. So our children start with ``-I -S`` and these paths.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def module_paths() -> list[str]:
    """``sys.path`` for a child: the standard library, phasewatt, then all else."""
    # Not the script's own folder: a user's queue.py must not become our queue.py.
    package_root = str(Path(__file__).resolve().parents[1])
    stdlib = os.path.dirname(os.__file__)
    of_script = {sys.path[0] if sys.path else "", "", _working_directory()}
    kept = [entry for entry in sys.path if entry and entry not in of_script]
    first = [entry for entry in kept if entry.startswith(stdlib) and "-packages" not in entry]
    rest = [entry for entry in kept if entry not in first and entry != package_root]
    return [*first, package_root, *rest]


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""
