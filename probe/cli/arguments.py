"""Arguments that several commands share, and checks of single values."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence

from ..errors import UsageError

_LONGEST_TOKEN = 4096  # bytes of its file
RUN = "a directory, id prefix, name or `latest`; of a group `latest/3`"
RUNS = (
    "an id, a name (all its runs), `latest`, or several with commas; of a name that holds commas "
    "the longest that a run has is taken"
)


def seconds(text: str) -> float:
    """A time in seconds, not negative. Raises ArgumentTypeError."""
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds")
    return value


def percent(text: str) -> float:
    """A share in percent, 0 to 100. Raises ArgumentTypeError."""
    value = _number(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share in percent: write 0 to 100")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def add_dir(parser: argparse.ArgumentParser, help_: str = "where runs are kept (./runs)") -> None:
    """``--dir``."""
    parser.add_argument("--dir", help=help_)


def add_run(parser: argparse.ArgumentParser) -> None:
    """One run, by default the latest, and ``--dir``."""
    parser.add_argument("run", nargs="?", default="latest", help=f"{RUN} (latest)")
    add_dir(parser)


def add_place(parser: argparse.ArgumentParser) -> None:
    """The directory of runs, as an argument or as ``--dir``: see :func:`place`."""
    parser.add_argument("place", nargs="?", metavar="DIR", help="the same as --dir DIR")
    add_dir(parser)


def place(options: argparse.Namespace) -> str | None:
    """The directory of :func:`add_place`; None if none is given.

    Raises:
        UsageError: it is given in both ways, or there is none of that name.
    """
    if options.place and options.dir:
        raise UsageError(f"{options.place} and --dir {options.dir}: give one directory of runs")
    given: str | None = options.place or options.dir
    if given and not os.path.isdir(given):
        raise UsageError(f"there is no directory {given}")
    return given


def add_format(parser: argparse.ArgumentParser, *formats: str, others: bool = False) -> None:
    """``--format`` with the first as the default, and ``--json``, which is short for one.

    Args:
        others: packages may add some, so that the command checks the name itself.
    """
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--format", choices=None if others else formats, default=formats[0], metavar="FORMAT",
        help=f"{', '.join(formats[:-1])} or {formats[-1]} ({formats[0]})",
    )  # fmt: skip
    group.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        help="the same as --format json",
    )


def add_token(parser: argparse.ArgumentParser, what: str) -> None:
    """``--token`` and ``--token-file``; ``what`` says what the token is for."""
    parser.add_argument(
        "--token",
        help=f"{what}; others see an argument in `ps`: better --token-file or PROBE_TOKEN",
    )
    parser.add_argument("--token-file", metavar="FILE", help="a file whose only line is the token")


def token_of(options: argparse.Namespace) -> str | None:
    """The token of ``--token``, ``--token-file`` or PROBE_TOKEN; None if none is set.

    Raises:
        UsageError: two are given, or the file holds no token.
    """
    if options.token_file is None:
        return options.token or os.environ.get("PROBE_TOKEN") or None
    if options.token is not None:
        raise UsageError("--token and --token-file: give one of them")
    try:
        with open(options.token_file, "rb") as file:
            text = file.read(_LONGEST_TOKEN + 1).decode().strip()
    except OSError as error:
        raise UsageError(
            f"cannot read the token of {options.token_file}: {error.strerror}"
        ) from None
    except ValueError:
        text = ""
    if not text or len(text.splitlines()) > 1 or len(text) > _LONGEST_TOKEN:
        raise UsageError(f"{options.token_file} holds no token: write it there as one line")
    return text


def add_output(parser: argparse.ArgumentParser) -> None:
    """``-o FILE``."""
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of stdout")


def add_command(parser: argparse.ArgumentParser) -> None:
    """The words of a command that is to be started, after ``--``."""
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND …",
        help="what to start, after `--`, with its own arguments",
    )


def command_of(words: Sequence[str]) -> list[str]:
    """Those words without the ``--``."""
    return list(words[1:] if words[:1] == ["--"] else words)
