"""``probe calibrate``: find out how this machine's GPUs show power."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UsageError
from ..arguments import seconds

SUMMARY = "find out how this machine's GPUs show power; later runs use it"
EXAMPLES = ("probe calibrate", "probe calibrate --seconds 40", "probe calibrate --record reads.npz")
_LEAST_S = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=None,
        metavar="S",
        help="how long each GPU is kept busy and idle by turns (20)",
    )

    parser.add_argument(
        "--record",
        type=Path,
        default=None,
        metavar="FILE.npz",
        help="keep all that was read, and when the load was switched",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, NothingToReport."""
    from ...calibrate import SECONDS, calibrate, render

    if options.seconds is not None and options.seconds < _LEAST_S:
        raise UsageError(f"--seconds: at least {_LEAST_S}, or there is nothing to see")
    if options.record is not None and options.record.suffix != ".npz":
        raise UsageError(f"--record: {options.record} does not end with .npz")
    length_s = SECONDS if options.seconds is None else options.seconds
    try:
        for calibration, path in calibrate(length_s, options.record):
            print(render(calibration, path))
    except OSError as error:
        raise UsageError(f"the calibration cannot be kept: {error}") from None
    return 0
