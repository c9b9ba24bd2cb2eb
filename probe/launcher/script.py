"""The environment in which `probe run` starts a command."""

from __future__ import annotations

import os
from pathlib import Path

_BOOT = Path(__file__).with_name("site")
_OURS = ("PROBE_RUN", "PROBE_TASK")  # of a `probe run` above this one


def script_environment(**variables: str) -> dict[str, str]:
    """This process's environment, with these variables and the folder that arms the script."""
    kept = {name: value for name, value in os.environ.items() if name not in _OURS}
    paths = [str(_BOOT), *filter(None, [kept.get("PYTHONPATH")])]
    return kept | variables | {"PYTHONPATH": os.pathsep.join(paths)}
