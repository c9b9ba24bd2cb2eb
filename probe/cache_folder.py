"""Where what was measured about this machine is kept from one run to the next."""

from __future__ import annotations

import os
from pathlib import Path


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
