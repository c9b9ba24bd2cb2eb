"""What stays of old segments, batch by batch.

Samples and edges: one minute per hour whole, of a rank's first steps all; else every 10 s the last
value of each source, of each logged metric and of the allocator, and the last step that closed.
Counts that were logged (samples, tokens) are added up, since their sum is what they say. Of the
ledger a row per phase and 10 s.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...ring.layout import Record
from ...store.segments import EDGES, LEDGER, SAMPLES
from ...units import NS_PER_S

MINUTE_S, HOUR_S = 60, 3600
EVERY_NS = 10 * NS_PER_S
FIRST_STEPS = 200

# Of these the last in 10 s says it all, but for counts that were logged.
_LAST_COUNTS = (Record.STEP, Record.STEP_ELSEWHERE, Record.STEPPED, Record.VALUE, Record.MEMORY)

Batches = Iterator[pa.RecordBatch]
Thinner = Callable[[Iterable[pa.RecordBatch]], Batches]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def in_kept_minute(time_ns: Ints) -> Bools:
    """Whether samples and edges of an instant all stay."""
    return np.asarray(time_ns // NS_PER_S % HOUR_S < MINUTE_S, np.bool_)


def thin_samples(batches: Iterable[pa.RecordBatch]) -> Batches:
    """What stays of old samples."""
    for batch in batches:
        time_ns = batch.column("time_ns").to_numpy()
        keep = in_kept_minute(time_ns)
        rest = np.flatnonzero(~keep)
        source = batch.column("source").to_numpy()[rest].astype(np.int64)
        order, first = _groups(source, time_ns[rest] // EVERY_NS)
        keep[rest[order[_last(first, len(order))]]] = True
        yield _rows(batch, keep, SAMPLES)


class EdgeThinner:
    """What stays of a ring's old edges. One for each segment, whose batches come in order."""

    def __init__(self, counts: Collection[int], *, begins: bool):
        """Begin before the first row.

        Args:
            counts: codes of logged metrics that are added up.
            begins: the segment is the ring's first one.
        """
        self._counts = np.array(sorted(counts), np.int64)
        self._step = 0 if begins else FIRST_STEPS  # that goes on where a batch begins
        self._open = False  # whether the last row before was kept with its minute

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """The rows that stay; those of added counts have the sum."""
        for batch in batches:
            time_ns, kind, code, payload = (
                batch.column(name).to_numpy().astype(np.int64)
                for name in ("time_ns", "kind", "code", "payload")
            )
            unthinned = in_kept_minute(time_ns) | (self._steps(kind, payload) < FIRST_STEPS)
            keep = unthinned | (kind == Record.END) | self._ends(kind, unthinned)
            rest = np.flatnonzero(np.isin(kind, _LAST_COUNTS) & ~keep)
            order, first = _groups(kind[rest] << 16 | code[rest], time_ns[rest] // EVERY_NS)
            rest = rest[order]
            last = rest[_last(first, len(rest))]
            keep[last] = True
            added = (kind[last] == Record.VALUE) & np.isin(code[last], self._counts)
            if added.any():
                with np.errstate(all="ignore"):  # bits of other records are no floats
                    sums = np.add.reduceat(np.nan_to_num(payload[rest].view(np.float64)), first)
                payload[last[added]] = sums[added].view(np.int64)
            yield _rows(batch, keep, EDGES, payload)

    def _steps(self, kind: Ints, payload: Ints) -> Ints:
        """The number of the step that each row is in."""
        closes = np.flatnonzero(kind == Record.STEP)
        numbers = np.concatenate([payload[closes], [0]])
        after = numbers[-2] + 1 if len(closes) else self._step
        numbers[-1] = after
        self._step = int(after)
        # A step's closing row is the last one of the step.
        return np.asarray(numbers[np.searchsorted(closes, np.arange(len(kind)))], np.int64)

    def _ends(self, kind: Ints, unthinned: Bools) -> Bools:
        """The mark that ends what went on when a kept minute was over."""
        marks = (kind == Record.MARK) | (kind == Record.LEAVE)
        ends = np.zeros(len(kind), np.bool_)
        before = np.concatenate([[self._open], unthinned[:-1]])
        for place in np.flatnonzero(before & ~unthinned).tolist():
            later = np.flatnonzero(marks[place:])
            if len(later):
                ends[place + later[0]] = True
        self._open = bool(unthinned[-1]) if len(unthinned) else self._open
        return ends


def thin_ledger(batches: Iterable[pa.RecordBatch]) -> Batches:
    """A row per phase and 10 s of phases; its step is the first of them."""
    held = np.zeros((len(LEDGER.names), 0), np.int64)
    before_ns = 0  # of all that was given out
    for batch in batches:
        new = np.array([batch.column(name).to_numpy() for name in LEDGER.names], np.int64)
        rows = np.concatenate([held, new], axis=1)
        bucket = (before_ns + np.cumsum(rows[3]) - rows[3]) // EVERY_NS
        done = int(np.searchsorted(bucket, bucket[-1])) if len(bucket) else 0
        held = rows[:, done:]
        before_ns += int(rows[3, :done].sum())
        yield _summed(rows[:, :done], bucket[:done])
    yield _summed(held, np.zeros(held.shape[1], np.int64))


def _summed(rows: Ints, bucket: Ints) -> pa.RecordBatch:
    order, first = _groups(rows[1], bucket)
    step, code, count, time_ns = rows[:, order] if len(first) else rows[:, :0]
    columns = [
        np.minimum.reduceat(step, first) if len(first) else step,
        code[first] if len(first) else code,
        np.add.reduceat(count, first) if len(first) else count,
        np.add.reduceat(time_ns, first) if len(first) else time_ns,
    ]
    return pa.record_batch(
        [pa.array(c).cast(f.type) for c, f in zip(columns, LEDGER, strict=True)], schema=LEDGER
    )


def _groups(key: Ints, bucket: Ints) -> tuple[Ints, Ints]:
    """(order by bucket, then key, rows in their order; where each group begins in it)."""
    order = np.lexsort((key, bucket))
    key, bucket = key[order], bucket[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (key[1:] != key[:-1]) | (bucket[1:] != bucket[:-1])
    return order, np.flatnonzero(new)


def _last(first: Ints, number: int) -> Ints:
    """Where each group ends."""
    return np.append(first[1:], number)[: len(first)] - 1


def _rows(
    batch: pa.RecordBatch, keep: Bools, schema: pa.Schema, payload: Ints | None = None
) -> pa.RecordBatch:
    kept = batch.filter(pa.array(keep)).select(schema.names)
    if payload is not None:
        place = schema.get_field_index("payload")
        kept = kept.set_column(place, schema.field(place), pa.array(payload[keep]))
    return kept
