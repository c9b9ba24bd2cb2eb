"""Where what was measured about this machine is kept from one run to the next."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def cache_folder(kind: str) -> Path:
    """The folder of what is kept of one kind.

    It is $PROBE_CALIBRATION, else phasewatt/``kind`` in $XDG_CACHE_HOME or ~/.cache.

    Raises:
        RuntimeError: there is no home directory.
    """
    given = os.environ.get("PROBE_CALIBRATION")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "phasewatt" / kind


def keep(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a file of such a folder as JSON: whole, or not at all.

    Raises:
        OSError: it cannot be written.
        TypeError, ValueError: JSON cannot hold ``fields``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
