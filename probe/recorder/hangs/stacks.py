"""Reads the stacks that a hanging process wrote itself (:mod:`probe.session.stack_dumps`)."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...store.untrusted import opened

_LARGEST = 64 << 20  # bytes of a file of stacks
_READ = 1 << 20  # of it are looked at
_BEGINS = "Timeout ("  # what faulthandler writes before the stacks
_OTHERS = 3  # threads besides the one that trains that a line names
_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+).*most recent call first")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)\Z')
_PACKAGES = re.compile(r"/(site|dist)-packages/")
_STDLIB = sysconfig.get_path("stdlib")
_OURS = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True, slots=True)
class Frame:
    """One call: file, line and function."""

    file: str
    line: int
    function: str

    @property
    def is_library(self) -> bool:
        """Whether it is of an installed package or Python itself, not of the user's code."""
        of_python = self.file.startswith(("<", _STDLIB + "/"))
        return of_python or self.is_ours or _PACKAGES.search(self.file) is not None

    @property
    def is_ours(self) -> bool:
        """Whether it is a wrapper of phasewatt around what the user called."""
        return self.file.startswith(_OURS + "/")

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


def read_stacks(path: Path, since_s: float) -> dict[int, list[Frame]]:
    """The frames of each thread, innermost first, by Python's number of the thread.

    Args:
        path: what :mod:`faulthandler` wrote, every so often.
        since_s: unix time; stacks that were written before are of an earlier wait.

    Returns:
        Those that were written last; nothing if there are none since, or they cannot be read.
    """
    try:
        with opened(path, _LARGEST) as file:
            status = os.fstat(file.fileno())
            if status.st_mtime < since_s:
                return {}
            file.seek(max(0, status.st_size - _READ))
            text = file.read(_READ).decode("utf-8", "replace")
    except OSError:
        return {}
    text = text[text.rfind(_BEGINS) :]  # rfind: -1 if it is cut off, then nothing is parsed
    threads: dict[int, list[Frame]] = {}
    frames: list[Frame] = []
    for line in text.splitlines():
        if begins := _THREAD.match(line):
            frames = threads.setdefault(int(begins[1], 16), [])
        elif at := _FRAME.match(line):
            frames.append(Frame(at[1], int(at[2]), at[3]))
    return threads


def place(frames: Sequence[Frame]) -> str:
    """``train.py:41 in all_reduce``: the user's innermost line, and the innermost function."""
    if not frames:
        return ""
    of_user = next((frame for frame in frames if not frame.is_library), frames[0])
    called = next((frame for frame in frames if not frame.is_ours), frames[0])
    return f"{of_user} in {called.function}"


def other_places(threads: Mapping[int, Sequence[Frame]], training: int) -> list[str]:
    """Where the other threads stand, without repeats, a few of them."""
    places = [place(frames) for ident, frames in threads.items() if ident != training and frames]
    several = list(dict.fromkeys(places))
    more = len(several) - _OTHERS
    return several[:_OTHERS] + ([f"{more} more"] if more > 0 else [])
