"""``probe merge DIR …``: join the parts that the hosts of one job wrote apart."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "join what the hosts of one job wrote apart into the run of rank 0's host"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("runs", nargs="+", metavar="DIR", help="directories of runs, rank 0's too")


def run(options: argparse.Namespace) -> int:
    """Print what was joined and the directory of the whole run. Raises StoreError."""
    from ...store.merge import merge

    directories = [Path(directory).expanduser().absolute() for directory in options.runs]
    merged, joined, already_there = merge(directories)
    if joined:
        print(f"joined: {', '.join(joined)}")
    if already_there:
        print(f"already there: {', '.join(already_there)}")
    print(merged)
    return 0
