"""A process of ours stays small: no pandas, one BLAS thread."""

from __future__ import annotations

import os
import sys
import threading
from importlib.abc import MetaPathFinder
from typing import Any


class RefusePandas(MetaPathFinder):
    """While it stands in ``sys.meta_path``, pandas cannot be imported by a thread, or by any."""

    def __init__(self, thread: int | None = None):
        self._thread = thread

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Find nothing. Raises ImportError for pandas."""
        if fullname == "pandas" and self._thread in (None, threading.get_ident()):
            raise ImportError("pandas is not needed here")


def stay_small() -> None:
    """Of the recorder and of commands that read runs, before they import numpy or pyarrow.

    The estimator's matrices are small: threads of BLAS only spin. With its first array pyarrow
    imports pandas if it can: 0.25 s and 25 MiB. It looks once; only a conversion to pandas looks
    again. Not for a process of a user: pyarrow would not know a Series.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "pandas" in sys.modules:
        return
    refuse = RefusePandas(threading.get_ident())  # CodeCarbon's thread may need it
    sys.meta_path.insert(0, refuse)
    try:
        import pyarrow as pa

        pa.array([0.0])
    finally:
        sys.meta_path.remove(refuse)
