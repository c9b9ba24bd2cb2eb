"""The command ``probe``. Exit codes: 0; 1 bad input, one clear line; 2 nothing to report."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import NoReturn

from .. import __version__
from ..errors import ProbeError, UsageError
from . import commands


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options = _parser(arguments).parse_args(arguments)
        code = _module(options.command).run(options)
    except ProbeError as error:
        print(f"probe: {error}", file=sys.stderr)
        code = error.exit_code
    except BrokenPipeError:
        # `probe ls | head`: the reader has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = 130
    if code < 0:
        _die_of(-code)
    sys.exit(code)


def command_names() -> list[str]:
    """Every command: the modules of :mod:`probe.cli.commands`."""
    return sorted(module.name for module in iter_modules(commands.__path__))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Knows all commands; only the one that is called is loaded, or all for ``--help``."""
    parser = _Parser(prog="probe", description="Which phase of your training burns the energy?")
    parser.add_argument("--version", action="version", version=f"phasewatt {__version__}")
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    names = command_names()
    called = [name for name in names if name in arguments[:1]]
    for name in called or names:
        module = _module(name)
        command = subparsers.add_parser(
            name, help=module.SUMMARY, usage=getattr(module, "USAGE", None)
        )
        module.add_arguments(command)
    return parser


def _module(name: str) -> commands.Command:
    module: commands.Command = import_module(f"{commands.__name__}.{name}")
    return module


def _die_of(number: int) -> None:
    """End by the signal that ended the command, so that a shell sees the same."""
    with contextlib.suppress(OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(128 + number)
