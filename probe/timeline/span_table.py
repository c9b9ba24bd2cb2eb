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

    def counts(self) -> dict[int, int]:
        """How often each phase was entered; OUTSIDE is no phase."""
        codes, counts = np.unique(self.code[self.entered], return_counts=True)
        entered = {int(c): int(n) for c, n in zip(codes, counts, strict=True)}
        return {int(c): entered.get(int(c), 0) for c in np.unique(self.code) if c != Code.OUTSIDE}

    def per_step(self) -> tuple[Ints, Ints, Ints, Ints]:
        """(step, code, times entered, nanoseconds), one entry per step and phase."""
        keep = self.code != Code.OUTSIDE
        step, code = self.step[keep], self.code[keep]
        key, place = np.unique((step << 16) | code, return_inverse=True)
        count = np.zeros(len(key), np.int64)
        time = np.zeros(len(key), np.int64)
        np.add.at(count, place, self.entered[keep].astype(np.int64))
        np.add.at(time, place, (self.end_ns - self.begin_ns)[keep])
        return key >> 16, key & 0xFFFF, count, time

    def seconds(self) -> dict[tuple[int, int], float]:
        """Seconds of each (step, code)."""
        step, code, _, time = self.per_step()
        return {(int(s), int(c)): float(t) / 1e9 for s, c, t in zip(step, code, time, strict=True)}

    def ledger(self) -> dict[str, Ints]:
        """:meth:`per_step` as columns; a step cut by a batch has a row in each."""
        step, code, count, time = self.per_step()
        return {"step": step, "code": code, "count": count, "time_ns": time}
