"""Trouble in a part of the recorder ends that part, never the recording."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


class Breaker:
    """``with breaker():`` around what may fail; afterwards ``broken`` says whether it ever did.

    A disk that refuses (OSError) is the recorder's to tell and goes through.
    """

    def __init__(self, consequence: str):
        """``consequence``: what does not happen any more, for the log."""
        self.broken = False
        self._consequence = consequence

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            self.broken = True
            print(
                f"{self._consequence}: {type(error).__name__}: {error}", file=sys.stderr, flush=True
            )
