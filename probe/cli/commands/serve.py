"""``probe serve DIR``: a Prometheus endpoint of all live runs."""

from __future__ import annotations

import argparse

from ..arguments import add_place, add_token, place, token_of

SUMMARY = "Prometheus endpoint of all live runs"
EXAMPLES = ("probe serve --port 9400", "probe serve /data/runs --otlp http://localhost:4318")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_place(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, default=9400, help="0: any free one (9400)")
    add_token(parser, "what others must send as a bearer token")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which a proxy calls this server; may be repeated",
    )
    parser.add_argument(
        "--otlp", metavar="URL", help="send them to an OpenTelemetry collector, too"
    )
    parser.add_argument("--cert", metavar="FILE", help="certificate for TLS")
    parser.add_argument("--key", metavar="FILE", help="its key")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises ProbeError."""
    from ...plugins import SERVICES, load

    options.dir, options.token = place(options), token_of(options)
    return int(load(SERVICES, "serve")(options))
