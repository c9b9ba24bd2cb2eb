"""IPython and Jupyter: ``%load_ext probe``, then ``%%watch`` at the top of a cell."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser
from typing import Any, NoReturn

from ..errors import ProbeError, UsageError
from ..session.watch import watch

USAGE = "%%watch [NAME] [--dir DIR] [--modules]"


class _Arguments(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}: write {USAGE}")


class WatchMagic:
    """The cell magic of one shell."""

    def __init__(self, shell: Any):
        self._shell = shell
        self._arguments = _Arguments(prog="%%watch", add_help=False)
        self._arguments.add_argument("name", nargs="?")
        self._arguments.add_argument("--dir")
        self._arguments.add_argument("--modules", action="store_true")

    def __call__(self, line: str, cell: str) -> Any:
        """Run the cell in :class:`probe.watch`, and give its report, which the notebook shows.

        An error of the cell, or an interrupt, ends the run as failed. IPython shows the error as
        it does without us.
        """
        try:
            watching = watch(**vars(self._arguments.parse_args(shlex.split(line))))
        except (ProbeError, ValueError) as error:
            print(f"phasewatt: {error}")
            return None
        run = watching.__enter__()
        result = self._shell.run_cell(cell)
        failure = result.error_before_exec or result.error_in_exec
        watching.__exit__(None if failure is None else type(failure), failure, None)
        return run.report()


def register(shell: Any) -> None:
    """Make ``%%watch`` known to an IPython shell."""
    shell.register_magic_function(WatchMagic(shell), magic_kind="cell", magic_name="watch")
