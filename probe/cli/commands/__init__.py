"""The commands of ``probe``, one module each; the module's name is the command's.

A module has ``SUMMARY`` (one line for ``probe --help``), ``EXAMPLES`` (lines for its own),
``add_arguments(parser)`` and ``run(options) -> int``, the exit code; ``USAGE`` and ``DESCRIPTION``
where argparse's usage and the summary are not enough, ``rewritten(words)`` where its words are
not in the form that argparse takes. It imports what it works with inside ``run``, so that
``probe --help`` stays quick.
"""

from __future__ import annotations

import argparse
from typing import Protocol


class Command(Protocol):
    """What each module here is."""

    SUMMARY: str
    EXAMPLES: tuple[str, ...]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it and return the exit code. Raises ProbeError with one clear line."""
