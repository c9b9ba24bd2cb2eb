"""Marks that only the future decides: forward's tail, forwards without gradients, loading.

* ``TAIL`` (after a forward) is forward if a backward follows before the next forward begins, the
  step closes or the run ends, else other;
* ``PRE`` (after data, before a forward) is forward, *inferred*, if a backward follows
  with no forward seen since the backward before; else, or once the engine says
  ``OTHER``, it is other;
* ``NO_GRAD`` (a forward without gradients) is inference if a forward with gradients or a backward
  comes before the next loading, as it does for a teacher, else eval;
* ``LOADING`` is eval if an evaluation's forward follows before another iteration begins
  (``FIRST_LOADING``), else data. Of a batch that no forward follows, and of an epoch's end
  (``EXHAUSTED``, which is not counted), the forward before it says that.
"""

from __future__ import annotations

import numpy as np

from ..attribution.arrays import Bools, Ints
from ..ring.layout import Code, Record

HOLE = -1  # kind of the point at which records begin to be missing
FAR = np.iinfo(np.int64).max
_FAR_AWAY = 1024  # marks from a loading to the forward that says what it was for


def _next(index: Ints, where: Bools) -> Ints:
    """For each place the next place, itself included, where the condition holds."""
    at = np.where(where, index, FAR)
    return np.minimum.accumulate(at[::-1])[::-1]


def resolve(
    kind: Ints, raw: Ints, forward: bool, evaluates: bool, last: bool
) -> tuple[Ints, Bools, Ints]:
    """(final codes, inferred, places that only later rows can decide)."""
    final, inferred = raw.copy(), np.zeros(len(raw), np.bool_)
    final[raw == Code.RESUMED] = Code.OPTIMIZER
    final[raw == Code.SAVING_ON] = Code.CHECKPOINT
    final[raw == Code.EXHAUSTED] = Code.OTHER
    index = np.arange(len(raw))
    mark = kind == Record.MARK
    over = (kind == Record.END) | (kind == HOLE)
    undecided = np.zeros(len(raw), np.bool_)
    if ((raw == Code.TAIL) | (raw == Code.PRE)).any():
        undecided |= _resolve_forwards(index, kind, raw, forward, over, final, inferred)
    if (raw == Code.NO_GRAD).any():
        trains = _next(index, mark & ((raw == Code.FORWARD) | (raw == Code.BACKWARD)))
        loading_next = _next(index, over | (mark & (loads(raw) | (raw == Code.DATA))))
        where = raw == Code.NO_GRAD
        final[where] = np.where(trains < loading_next, Code.INFERENCE, Code.EVAL)[where]
        undecided |= where & (np.minimum(trains, loading_next) == FAR)
    if loads(raw).any():
        undecided |= _resolve_loading(index, mark, raw, evaluates, undecided, final)
    if last:
        return final, inferred, np.empty(0, np.int64)
    return final, inferred, np.flatnonzero(undecided)


def _resolve_forwards(
    index: Ints, kind: Ints, raw: Ints, forward: bool, over: Bools, final: Ints, inferred: Bools
) -> Bools:
    """Decide TAIL and PRE in ``final``; returns the places that only later rows can decide."""
    mark = kind == Record.MARK
    backward = mark & (raw == Code.BACKWARD)
    comes = _next(index, backward)
    # A tail that a step's end splits: the part behind the end belongs to the next step.
    closed = _next(index, (kind == Record.STEP) | over)
    closed_after = np.concatenate([closed[1:], [FAR]])
    tail_end = np.where(kind == Record.STEP, closed_after, closed)
    tail_end = np.minimum(tail_end, _next(index, mark & _is_forward(raw)))
    denied = _next(index, over | (mark & (raw == Code.OTHER)))
    # Was a forward seen between a backward and the one before it?
    seen = np.maximum.accumulate(np.where(mark & (raw == Code.FORWARD), index, -2))
    seen = np.where((seen < 0) & forward, -1, seen)
    previous = np.maximum.accumulate(np.where(backward, index, -2))
    previous = np.concatenate([[-2], previous[:-1]])
    hooked = seen > previous
    next_backward = np.minimum(comes, len(raw) - 1)
    tail_forward = (comes < tail_end) & (comes < FAR)
    pre_forward = (comes < denied) & (comes < FAR) & ~hooked[next_backward]
    is_tail, is_pre = raw == Code.TAIL, raw == Code.PRE
    final[is_tail] = np.where(tail_forward[is_tail], Code.FORWARD, Code.OTHER)
    final[is_pre] = np.where(pre_forward[is_pre], Code.FORWARD, Code.OTHER)
    inferred[is_pre] = pre_forward[is_pre]
    end = np.where(is_tail, np.minimum(comes, tail_end), np.minimum(comes, denied))
    waits: Bools = (is_tail | is_pre) & (end == FAR)
    return waits


def _resolve_loading(
    index: Ints, mark: Bools, raw: Ints, evaluates: bool, undecided: Bools, final: Ints
) -> Bools:
    """Decide in ``final`` which loading is an evaluation's; the rest as above."""
    loading, tells = loads(raw), mark & tells_evaluation(raw)
    is_eval = final == Code.EVAL
    after = _next(index, tells)
    after = np.where(after - index > _FAR_AWAY, FAR, after)  # what is shown live waits for it
    begins = _next(index, mark & (raw == Code.FIRST_LOADING))
    begins = np.concatenate([begins[1:], [FAR]])  # of another iteration, not of its own
    at = np.minimum(after, len(raw) - 1)
    before = np.maximum.accumulate(np.where(tells, index, -1))
    was_eval = np.where(before < 0, evaluates, is_eval[np.maximum(before, 0)])
    by_past = gives_nothing(raw) | (begins < after)
    its = np.where(by_past, was_eval, (after < FAR) & is_eval[at])
    waits_past = (before >= 0) & undecided[np.maximum(before, 0)]
    waits: Bools = np.where(by_past, waits_past, (after == FAR) | undecided[at])
    waits &= index >= len(raw) - _FAR_AWAY
    waits[-1] = True  # whether it gave a batch
    final[loading] = np.where(its, Code.EVAL, Code.DATA)[loading]
    return loading & waits


def loads(raw: Ints) -> Bools:
    """Where a batch is loaded, or not found."""
    return np.isin(raw, (Code.LOADING, Code.FIRST_LOADING))


def _is_forward(raw: Ints) -> Bools:
    """Marks that begin a forward of any kind."""
    return np.isin(raw, (Code.FORWARD, Code.EVAL, Code.NO_GRAD, Code.INFERENCE))


def tells_evaluation(raw: Ints) -> Bools:
    """Marks that tell whether what is loaded beside them is an evaluation's."""
    return np.isin(raw, (Code.FORWARD, Code.EVAL, Code.NO_GRAD, Code.INFERENCE, Code.BACKWARD))


def gives_nothing(raw: Ints) -> Bools:
    """A loading that ends at once in EXHAUSTED."""
    ends: Bools = np.concatenate([raw[1:] == Code.EXHAUSTED, [False]])
    return np.logical_and(loads(raw), ends)
