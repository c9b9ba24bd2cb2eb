"""How many samples a batch of a DataLoader holds, by the loader's own numbers.

The batch itself says less: its first dimension may be time, and a graph has none.
"""

from __future__ import annotations

from typing import Any

_NAME = "_phasewatt_batches"  # on an iterator


def remember(iterator: Any, loader: Any) -> tuple[int, int]:
    """Note the batch size and the samples of an iteration that begins.

    Returns both; (0, 0) if they are not known, as of custom batch samplers.
    """
    known = (0, 0)
    try:
        batches = loader.batch_sampler
        size = getattr(batches, "batch_size", None)
        if type(size) is int and size >= 1:
            if getattr(batches, "split_batches", False):  # accelerate: each process gets a part
                size = max(1, size // batches.num_processes)
            known = (size, _total(batches))
        setattr(iterator, _NAME, known)
    except Exception:  # a loader of another kind: nothing is counted
        return 0, 0
    return known


def samples_in(iterator: Any) -> int:
    """Samples in the batch that an iterator gave last; 0 if that is not known."""
    try:
        size, total = getattr(iterator, _NAME)
        given = iterator._num_yielded * size
        return int(size if total < 0 or given <= total else max(0, size - (given - total)))
    except Exception:
        return 0


def _total(batches: Any) -> int:
    """Samples of an epoch; -1 if they are not known beforehand."""
    try:
        return len(batches.sampler)
    except (TypeError, AttributeError, NotImplementedError):
        return -1
