"""What other threads did, laid over the main thread's spans."""

from __future__ import annotations

import numpy as np

from ..ring.layout import Code, Record
from .span_table import Rows, SpanTable


def overlay(main: SpanTable, secondary: Rows) -> SpanTable:
    """Replace parts of ``backward`` by what another thread did meanwhile.

    On CUDA the autograd engine runs in its own thread, so recompute and collectives
    inside backward stand in that thread's ring, as MARK … LEAVE.
    """
    kind = secondary["kind"].astype(np.int64)
    chosen = (kind == Record.MARK) | (kind == Record.LEAVE)
    if not len(main) or not chosen.any():
        return main
    time = secondary["time_ns"][chosen].astype(np.int64)
    code = np.where(kind == Record.LEAVE, 0, secondary["code"])[chosen].astype(np.int64)
    code[(code != Code.RECOMPUTE) & (code != Code.COMMUNICATION)] = 0
    cuts = np.unique(np.concatenate([main.begin_ns, main.end_ns, time]))
    cuts = cuts[(cuts >= main.begin_ns[0]) & (cuts <= main.end_ns[-1])]
    begin, end = cuts[:-1], cuts[1:]
    under = np.searchsorted(main.begin_ns, begin, side="right") - 1
    over = np.searchsorted(time, begin, side="right") - 1
    theirs = np.where(over < 0, 0, code[np.maximum(over, 0)])
    pieces = main.take(under)
    covered = (pieces.code == Code.BACKWARD) & (theirs != 0)
    # The entry stays with the first piece that is left of its span.
    left = np.flatnonzero(~covered)
    first = np.zeros(len(under), np.bool_)
    first[left[np.concatenate([[True], under[left][1:] != under[left][:-1]])[: len(left)]]] = True
    began = np.concatenate([[True], (over[1:] != over[:-1]) | ~covered[:-1]])
    merged = SpanTable(
        begin,
        end,
        np.where(covered, theirs, pieces.code),
        pieces.step,
        pieces.micro,
        pieces.inferred & ~covered,
        np.where(covered, began, pieces.entered & first),
    )
    # Time between two main tables (a gap in the spans) belongs to no span.
    inside = begin < main.end_ns[under]
    return merged.take(inside)
