"""Phase spans as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..attribution.arrays import ArrayTable, Bools, Ints
from ..ring.layout import Code

Rows = npt.NDArray[np.void]  # records of a ring


@dataclass(frozen=True, slots=True)
class SpanTable(ArrayTable):
    """Contiguous spans: begin, end, code, step, and backwards so far in the step.

    ``entered`` is False where a span only continues an occurrence of its phase (after
    a collective inside it, or over a step's end); ``inferred`` marks a forward that no
    hook saw.
    """

    begin_ns: Ints
    end_ns: Ints
    code: Ints
    step: Ints
    micro: Ints
    inferred: Bools
    entered: Bools

    @classmethod
    def empty(cls) -> SpanTable:
        """A table without spans."""
        none = np.empty(0, np.int64)
        no = np.empty(0, np.bool_)
        return cls(none, none, none, none, none, no, no)

    @classmethod
    def concat(cls, tables: Sequence[SpanTable]) -> SpanTable:
        """One table of several, in the given order; without spans if there are none."""
        # super() without arguments fails in a dataclass with slots: the class is made twice.
        return super(SpanTable, cls).concat(tables or [cls.empty()])

    def ledger(self) -> dict[str, Ints]:
        """Step, code, times entered and ``time_ns`` of each phase of each step, as columns.

        A step that is cut by a batch has a row in each.
        """
        keep = self.code != Code.OUTSIDE
        key, place = np.unique((self.step[keep] << 16) | self.code[keep], return_inverse=True)
        count, time_ns = np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)
        np.add.at(count, place, self.entered[keep].astype(np.int64))
        np.add.at(time_ns, place, (self.end_ns - self.begin_ns)[keep])
        return {"step": key >> 16, "code": key & 0xFFFF, "count": count, "time_ns": time_ns}
