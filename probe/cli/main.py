"""The command ``probe``."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NoReturn

from .. import __version__
from ..errors import ProbeError, UsageError
from ..spelling import did_you_mean, meant_or_all
from . import commands
from .streams import prepare_streams


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code."""
    if argv is None:
        prepare_streams()
    code = _code(list(sys.argv[1:] if argv is None else argv))
    if code < 0:
        _die_of(-code)
    if argv is None:
        _leave(code)
    sys.exit(code)


def _code(arguments: list[str]) -> int:
    """Run the command; what it raises becomes a line and a code, negative for a signal."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except ProbeError as error:
        with contextlib.suppress(OSError):  # a full disk has no room for the line either
            print(f"probe: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except BrokenPipeError:
        # `probe ls | head`: the reader has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _run(arguments: list[str]) -> int:
    try:
        options = _parser(arguments).parse_args(arguments)
        return _module(options.command).run(options)
    except SystemExit as end:  # of --help and --version
        return int(end.code or 0)


def command_names() -> list[str]:
    """Every command: the modules of :mod:`probe.cli.commands`."""
    return sorted(module.name for module in iter_modules(commands.__path__))


_CODES = """exit codes:
  0    done; of `probe run` and `probe ablate`, where they end with the command: its own
  1    bad input or a run that cannot be read: one line says what to do
  2    nothing to report: no run, or one that holds nothing yet
  3    of `probe compare --fail-if`: a limit is exceeded
  130  ended by Ctrl-C

RUN is a directory, the begin of an id, a name or `latest`; of a group `latest/3`.
Runs are kept in ./runs, in PROBE_DIR, or in --dir. Options may be shortened.
"""


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, and what was perhaps meant."""

    def error(self, message: str) -> NoReturn:
        if (choice := _CHOICE.search(message)) is not None:
            names = re.findall(r"'([^']*)'", choice["names"])
            what = "no command" if choice["argument"] == "COMMAND" else f"{choice['argument']}: no"
            message = f"{what} {choice['word']!r}{meant_or_all(choice['word'], names)}"
        raise UsageError(f"{message} (see `{self.prog} --help`)")


class _CommandParser(_Parser):
    rewritten: Callable[[list[str]], list[str]] | None = None  # of the command, if it has one

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse's, but what is unknown is refused here, where the options are known."""
        words = sys.argv[1:] if args is None else list(args)
        if self.rewritten is not None:
            words = self.rewritten(words)
        options, unknown = super().parse_known_args(words, namespace)
        if unknown:
            names = [name for action in self._actions for name in action.option_strings]
            word = unknown[0].partition("=")[0]
            self.error(f"unknown argument {unknown[0]!r}{did_you_mean(word, names)}")
        return options, unknown


_CHOICE = re.compile(
    r"argument (?P<argument>[^:]*): invalid choice: '(?P<word>.*)' \(choose from (?P<names>.*)\)"
)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Knows all commands; only the one that is called is loaded, or all for ``--help``."""
    parser = _Parser(
        prog="probe",
        description="Which phase of your training burns the energy?",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"phasewatt {__version__}")
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_CommandParser
    )
    names = command_names()
    called = [name for name in names if name in arguments[:1]]
    for name in called or names:
        _add_command(subparsers, name)
    return parser


def full_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    return _parser(())


def _add_command(subparsers: Any, name: str) -> None:
    """One command, with its options and examples."""
    module = _module(name)
    command = subparsers.add_parser(
        name,
        help=module.SUMMARY,
        usage=getattr(module, "USAGE", None),
        description=getattr(module, "DESCRIPTION", module.SUMMARY),
        epilog="examples:\n" + "\n".join(f"  {line}" for line in module.EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.rewritten = getattr(module, "rewritten", None)
    module.add_arguments(command)


def _module(name: str) -> commands.Command:
    module: commands.Command = import_module(f"{commands.__name__}.{name}")
    return module


def _leave(code: int) -> NoReturn:
    """End this process without the interpreter's own end.

    That one kills each other thread where it next asks for the lock. One that is inside C++ code
    then (a daemon thread in an import, Arrow's own threads that let go of Python's memory) aborts
    the process, and that would be the exit code of `probe run`.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # joins all threads but daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, ProbeError):  # a closed pipe, a full disk
            stream.flush()
    os._exit(code)


def _die_of(number: int) -> None:
    """End by the signal that ended the command, so that a shell sees the same."""
    with contextlib.suppress(OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(128 + number)
