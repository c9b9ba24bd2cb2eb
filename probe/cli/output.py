"""Where a rendered report goes: stdout, or the file of ``-o``."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ..errors import UsageError
from ..report.numbers import data_size

_NARROWEST = 40  # columns


def write(rendered: str | bytes, format_: str, output: str | None) -> int:
    """Write it and return the exit code. Raises UsageError."""
    content = rendered if isinstance(rendered, bytes) else f"{rendered}\n".encode()
    if output is not None:
        from ..store.files import write_bytes

        try:
            write_bytes(Path(output), content)
        except OSError as error:
            raise UsageError(f"cannot write {output}: {error.strerror}") from None
        print(f"wrote {output} ({format_}, {data_size(len(content))})", file=sys.stderr)
    elif isinstance(rendered, bytes) and sys.stdout.isatty():
        raise UsageError(f"{format_} is not text: write it to a file with -o")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    return 0


def terminal(*, to_file: bool = False) -> tuple[int | None, bool]:
    """(columns, None without a terminal; colour or not), as COLUMNS and NO_COLOR say."""
    is_terminal = sys.stdout.isatty() and not to_file
    width = None
    if is_terminal or os.environ.get("COLUMNS", "").isdigit():
        width = max(_NARROWEST, shutil.get_terminal_size().columns)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return width, bool(is_terminal and not plain)
