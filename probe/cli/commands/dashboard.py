"""``probe dashboard DIR``: the live web dashboard."""

from __future__ import annotations

import argparse

from ..arguments import add_positional_dir, add_token, seconds, token_of

SUMMARY = "live web dashboard: runs, energy by phase, gains between runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_positional_dir(parser)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8050)
    add_token(parser, "what others must know to look")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which a proxy calls this server; may be repeated",
    )
    parser.add_argument(
        "--base-path", default="/", metavar="PATH", help="below which a proxy shows it"
    )
    parser.add_argument(
        "--idle",
        type=seconds,
        default=None,
        metavar="S",
        help="exit after S seconds without a running job or a viewer",
    )
    parser.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises ProbeError."""
    from ...plugins import SERVICES, load

    options.token = token_of(options)
    return int(load(SERVICES, "dashboard")(options))
