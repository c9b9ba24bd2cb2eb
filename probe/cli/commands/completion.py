"""``probe completion SHELL``: what a shell needs to complete commands and options."""

from __future__ import annotations

import argparse

from ...errors import UsageError

SUMMARY = "print what makes a shell complete commands and options"
EXAMPLES = (
    "probe completion bash > ~/.local/share/bash-completion/completions/probe",
    "probe completion zsh > ~/.zfunc/_probe    with ~/.zfunc in fpath",
)
_PATHS = ("dir", "place", "output")  # what follows is a path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "shell", metavar="SHELL", choices=("bash", "zsh", "tcsh"), help="bash, zsh or tcsh"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError."""
    try:
        import shtab
    except ImportError:
        raise UsageError("completion needs shtab: pip install shtab") from None
    from ..main import full_parser

    parser = full_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for command in commands.choices.values():
        for action in command._actions:
            if action.dest in _PATHS:
                paths = shtab.FILE if action.dest == "output" else shtab.DIRECTORY
                action.complete = paths
    print(shtab.complete(parser, options.shell))
    return 0
