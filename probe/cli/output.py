"""Where a rendered report goes: stdout, or the file of ``-o``."""

from __future__ import annotations

import sys
from pathlib import Path

from ..errors import UsageError


def write(rendered: str | bytes, format_: str, output: str | None) -> int:
    """Write it and return the exit code. Raises UsageError."""
    content = rendered if isinstance(rendered, bytes) else f"{rendered}\n".encode()
    if output is not None:
        from ..store.files import write_bytes

        try:
            write_bytes(Path(output), content)
        except OSError as error:
            raise UsageError(f"cannot write {output}: {error.strerror}") from None
    elif isinstance(rendered, bytes) and sys.stdout.isatty():
        raise UsageError(f"{format_} is not text: write it to a file with -o")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    return 0
