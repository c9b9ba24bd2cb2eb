"""A training that notes when each of its phases ended, and which of those ends were recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from probe.ring.layout import Record
from probe.store.reader import RunReader

from .processes import AWAIT_RECORDER

# Arguments: for how many seconds, or the path of a file that ends it; "at once": it does not wait
# for its recorder. Prints the run's path, and at last the clock just before and after each end.
SCRIPT = (
    AWAIT_RECORDER
    + """
import os, sys
import probe
ends = []
with probe.watch() as run:
    print(run.path, flush=True)
    if sys.argv[2:] != ["at once"]:
        await_recorder(run)
    timeless = sys.argv[1].startswith("/")  # until this file is there
    end = 0.0 if timeless else time.monotonic() + float(sys.argv[1])
    while len(ends) < 100 or time.monotonic() < end or timeless and not os.path.exists(sys.argv[1]):
        with run.phase("work"):
            time.sleep(0.008)
            inside_ns = time.monotonic_ns()
        ends.append((inside_ns, time.monotonic_ns()))
print(json.dumps(ends), flush=True)
"""
)


def recorded(run: Path, ends: np.ndarray) -> np.ndarray:
    """Whether an end of a phase was recorded between each two clocks, (n, 2) in ns."""
    marks = [rows[rows["kind"] == Record.MARK] for _, rows in RunReader(run).rings(0)]
    marks_ns = np.sort(np.concatenate(marks)["time_ns"].astype(np.int64))
    before, after = (
        np.searchsorted(marks_ns, ends[:, column], side)
        for column, side in ((0, "left"), (1, "right"))
    )
    return np.asarray(after > before)
