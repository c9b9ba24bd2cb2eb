"""``probe dashboard DIR``: the live web dashboard."""

from __future__ import annotations

import argparse

from ..arguments import add_place, add_token, place, seconds, token_of

SUMMARY = "live web dashboard: runs, energy by phase, gains between runs"
EXAMPLES = (
    "probe dashboard                     the runs of ./runs at http://127.0.0.1:8050",
    "probe dashboard /data/runs --port 9000",
    "probe dashboard --host 0.0.0.0 --token-file token.txt",
    "probe dashboard --alert 'no step for 10 min' --alert-command notify-send",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_place(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8050, help="0: any free one (8050)")
    add_token(parser, "what others must know to look")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which a proxy calls this server; may be repeated",
    )
    parser.add_argument(
        "--base-path", default="/", metavar="PATH", help="below which a proxy shows it (/)"
    )
    parser.add_argument(
        "--idle",
        type=seconds,
        default=None,
        metavar="S",
        help="exit after S seconds without a running job or a viewer",
    )
    parser.add_argument(
        "--alert",
        action="append",
        default=[],
        metavar="RULE",
        help="tell when it begins or ceases to hold of a live run: 'no step for 10 min', "
        "'cap > 50 %%', 'loss not finite', 'energy > 5 kWh'; may be repeated. More in "
        "~/.config/phasewatt/alerts.toml",
    )
    parser.add_argument(
        "--alert-command",
        metavar="COMMAND",
        help="what tells it, without a shell: the text is its last word, JSON its input",
    )
    parser.add_argument(
        "--alert-webhook", metavar="URL", help="an address that gets it as JSON by POST"
    )
    parser.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises ProbeError."""
    from ...plugins import SERVICES, load

    options.dir, options.token = place(options), token_of(options)
    return int(load(SERVICES, "dashboard")(options))
