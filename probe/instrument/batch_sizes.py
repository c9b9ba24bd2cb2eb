"""How many samples a batch of a DataLoader holds, by the loader's own numbers.

The batch itself says less: its first dimension may be time, and a graph has none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_NAME = "_phasewatt_batches"  # on an iterator


def remember(iterator: Any, loader: Any) -> None:
    """Note the batch size of an iteration that begins; of custom batch samplers it is not known."""
    try:
        batches = loader.batch_sampler
        size = getattr(batches, "batch_size", None)
        if type(size) is not int or size < 1:
            return
        if getattr(batches, "split_batches", False):  # accelerate: each process gets a part
            size = max(1, size // batches.num_processes)
        setattr(iterator, _NAME, (size, _total(batches)))
    except Exception:  # a loader of another kind: nothing is counted
        return


class Position(NamedTuple):
    """Where an iterator is: what is known of its batches."""

    last: int  # samples of the batch that it gave last; 0 if that is not known
    size: int  # of a usual batch
    left: int  # samples that follow; -1 if nobody knows how many
    counts: bool  # nothing but its batches changes what is left


def position_of(iterator: Any) -> Position:
    """Where an iterator is, by the numbers that torch keeps."""
    try:
        names = vars(iterator)
        size, total = names.get(_NAME, (0, 0))
        given = iterator._num_yielded * size
        left = -1 if total < 0 else max(0, total - given)
        last = size if total < 0 or given <= total else max(0, size - (given - total))
        # One whose workers stay goes on in the next epoch without a word of its beginning.
        return Position(last, size, left, not (size and names.get("_persistent_workers", True)))
    except Exception:  # a loader of another kind
        return Position(0, 0, 0, False)


def _total(batches: Any) -> int:
    """Samples of an epoch; -1 if they are not known beforehand."""
    try:
        return len(batches.sampler)
    except (TypeError, AttributeError, NotImplementedError):
        return -1
