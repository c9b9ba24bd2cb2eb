"""``probe demo``: train a small model, and see its joules per phase beside the true ones."""

from __future__ import annotations

import argparse

from ...errors import UsageError
from ..arguments import add_dir, seconds

SUMMARY = "train a small model on a simulated card: joules per phase beside the true ones"
EXAMPLES = ("probe demo", "probe demo --seconds 60 --dir /tmp/demo")
_SECONDS, _LEAST_S, _MOST_S = 40.0, 5, 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=_SECONDS,
        metavar="S",
        help=f"how long it trains ({_SECONDS:g})",
    )
    add_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError, NothingToReport."""
    from ...demo.demo import check, real_meters, run_demo
    from ...demo.text import after, before

    if not _LEAST_S <= options.seconds <= _MOST_S:
        raise UsageError(f"--seconds: from {_LEAST_S} to {_MOST_S}")
    check()
    meters = real_meters()
    print(before(meters, options.seconds), flush=True)
    print(after(run_demo(options.dir, options.seconds, meters), options.dir))
    return 0
