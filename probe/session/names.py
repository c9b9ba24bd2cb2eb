"""What a run is called where nobody named it: after its script or notebook."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_SAY_NOTHING = ("main", "train", "run", "__main__")  # a hundred scripts are called so


def run_name(script: str) -> str:
    """The script's stem; ``gpt/train.py``, whose own name says nothing, is ``gpt-train``."""
    if Path(script).stem == "ipykernel_launcher":  # Jupyter's server says which notebook it is
        return Path(os.environ.get("JPY_SESSION_NAME") or "notebook").stem
    path = Path("python" if script in ("", "-", "-c", "-m") else script)
    if path.stem not in _SAY_NOTHING:
        return path.stem
    folder = path.absolute().parent.name
    stem = "" if path.stem == "__main__" else path.stem
    return "-".join(part for part in (folder, stem) if part) or path.stem


def command_name(command: Sequence[str]) -> str:
    """The name of a run of a command: of its first script, else of its module or program."""
    for word in command:
        if word.endswith(".py"):
            return run_name(word)
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1]
    return Path(command[0]).name
