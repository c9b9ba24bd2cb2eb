"""``probe merge DIR …``: join the parts that the hosts of one job wrote apart."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

SUMMARY = "join what the hosts of one job wrote apart into the run of rank 0's host"
EXAMPLES = (
    "probe merge node0/runs/20261101-120000-gpt-3fa9c1 node1/runs/20261101-120000-gpt-3fa9c1",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "runs", nargs="+", metavar="DIR", help="one run's directory each, rank 0's too"
    )


def run(options: argparse.Namespace) -> int:
    """Print what was joined and the directory of the whole run. Raises StoreError."""
    from ...store.merge import merge

    directories = [Path(directory).expanduser().absolute() for directory in options.runs]
    merged = merge(directories)
    if merged.joined:
        print(f"joined: {', '.join(merged.joined)}")
    if merged.present:
        print(f"already there: {', '.join(merged.present)}")
    if merged.left_out:
        some = ", ".join(merged.left_out[:3]) + (", …" if len(merged.left_out) > 3 else "")
        print(
            f"not copied ({len(merged.left_out)}): {some}: no plain file of the run's owner",
            file=sys.stderr,
        )
    print(merged.run)
    return 0
