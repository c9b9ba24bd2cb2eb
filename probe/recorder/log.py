"""The recorder's log: its standard error, a file that lies on the disk that may be full."""

from __future__ import annotations

import contextlib
import sys

from ..redact import redact_text


def log(line: str) -> None:
    """Write one line. A line that cannot be written is lost; nothing else is."""
    with contextlib.suppress(OSError, ValueError):
        print(redact_text(line), file=sys.stderr, flush=True)
