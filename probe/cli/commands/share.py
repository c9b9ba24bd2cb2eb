"""``probe share RUN group|all|private``: who may read a run."""

from __future__ import annotations

import argparse

from ..arguments import RUN, add_dir

SUMMARY = "let the group or all read a run, or its owner alone"
EXAMPLES = ("probe share latest group", "probe share my-run private")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument(
        "who",
        metavar="WHO",
        choices=("group", "all", "private"),
        help="group, all, or private (its owner alone)",
    )
    add_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    from ...store.layout import runs_dir
    from ...store.runs import find_run
    from ...store.sharing import share
    from ...store.trainings import group_of

    path = group_of(find_run(options.run, runs_dir(options.dir)))
    share(path, options.who)
    print(f"{path.name}: {options.who}")
    return 0
