"""A directory of runs that other tools keep theirs in: ``./runs`` is TensorBoard's, too."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from .layout import ABLATION_FILE, CARDS_FILE, RUN_FILE, SEARCH_FILE
from .new_files import open_new

_SAID = ".phasewatt-shared"
_OURS = (RUN_FILE, ABLATION_FILE, CARDS_FILE, SEARCH_FILE)
_MOST = 200  # entries that are looked at
_EVENTS = "events.out.tfevents"


def foreign_line(directory: Path) -> str | None:
    """One line for the user, once per directory, if it holds folders that are no runs of ours.

    Args:
        directory: that nobody chose: the default.
    """
    try:
        if (directory / _SAID).exists():
            return None
        with os.scandir(directory) as entries:
            names = [entry.name for entry in islice(entries, _MOST) if entry.is_dir()]
            others = [
                name
                for name in names
                if not any((directory / name / file).exists() for file in _OURS)
            ]
            others = [name for name in others if not name.startswith(".")]
        events = any(name.startswith(_EVENTS) for name in os.listdir(directory)) or any(
            name.startswith(_EVENTS)
            for folder in others[:20]
            for name in os.listdir(directory / folder)
        )
        if not others and not events:
            return None
        open_new(directory / _SAID).close()
    except OSError:
        return None
    whose = "TensorBoard's event files" if events else f"{others[0]} and the like"
    return (
        f"phasewatt: {directory} holds other tools' folders, too ({whose}); "
        "PROBE_DIR=… keeps these runs apart"
    )
