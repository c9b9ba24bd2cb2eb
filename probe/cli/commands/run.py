"""``probe run -- COMMAND``: watch a script without touching it."""

from __future__ import annotations

import argparse

from ..arguments import add_command, add_dir, command_of

SUMMARY = "watch a script without touching it"
EXAMPLES = (
    "probe run -- python train.py",
    "probe run --name bf16 -- torchrun --nproc-per-node 4 train.py",
)
USAGE = "probe run [--dir D] [--name N] [--quiet] -- COMMAND …"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_dir(parser)
    parser.add_argument("--name", help="the run's name")
    parser.add_argument("--quiet", action="store_true", help="do not print the report at the end")
    add_command(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its own exit code, negative for a signal."""
    from ...launcher.launch import run_command

    words = command_of(options.words)
    return run_command(words, directory=options.dir, name=options.name, quiet=options.quiet)
