"""Arguments that several commands share, and checks of single values."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence


def seconds(text: str) -> float:
    """A time in seconds, not negative. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds")
    return value


def percent(text: str) -> float:
    """A share in percent, 0 to 100. Raises ArgumentTypeError."""
    value = seconds(text)
    if value > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share in percent")
    return value


def add_dir(parser: argparse.ArgumentParser, help_: str = "where runs are kept (./runs)") -> None:
    """``--dir``."""
    parser.add_argument("--dir", help=help_)


def add_run(parser: argparse.ArgumentParser) -> None:
    """One run, by default the latest, and ``--dir``."""
    parser.add_argument(
        "run", nargs="?", default="latest", help="a directory, an id prefix, a name or `latest`"
    )
    add_dir(parser)


def add_positional_dir(parser: argparse.ArgumentParser) -> None:
    """The directory of runs as the only positional argument."""
    parser.add_argument("dir", nargs="?", help="where runs are kept (./runs)")


def add_output(parser: argparse.ArgumentParser) -> None:
    """``-o FILE``."""
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of stdout")


def add_command(parser: argparse.ArgumentParser) -> None:
    """The words of a command that is to be started, after ``--``."""
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND …")


def command_of(words: Sequence[str]) -> list[str]:
    """Those words without the ``--``."""
    return list(words[1:] if words[:1] == ["--"] else words)
