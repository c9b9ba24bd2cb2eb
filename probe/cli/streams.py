"""The standard streams of a command: open, in UTF-8, and with one line where they take nothing."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from ..errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Output(io.FileIO):
    """Standard output. What cannot be written raises UsageError, but for a reader that has left."""

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UsageError(f"cannot write to standard output: {error.strerror}") from None


def prepare_streams() -> None:
    """Make the standard streams of this process ready for a command.

    A closed one leads nowhere from here on, and is closed again in whatever this process starts:
    else a run's file would get its number, and be the command's standard output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is sys.__stdout__:  # not another stream that somebody put there
        sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False, encoding="utf-8")  # noqa: SIM115


def _text(output: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    """A text stream in UTF-8, as reports are, whatever PYTHONIOENCODING says."""
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding="utf-8",
        errors="replace",  # lone surrogates, of names that are not UTF-8
        line_buffering=bool(getattr(before, "line_buffering", False)),
        write_through=bool(getattr(before, "write_through", False)),
    )
