"""Sums over a table of spans, for tests to compare."""

from __future__ import annotations

import numpy as np

from probe.ring.layout import Code
from probe.timeline.span_table import SpanTable


def counts(table: SpanTable) -> dict[int, int]:
    """How often each phase was entered; OUTSIDE is no phase."""
    return {
        int(code): int(table.entered[table.code == code].sum())
        for code in np.unique(table.code)
        if code != Code.OUTSIDE
    }


def seconds(table: SpanTable) -> dict[tuple[int, int], float]:
    """Seconds of each (step, code)."""
    ledger = table.ledger()
    keys = zip(ledger["step"].tolist(), ledger["code"].tolist(), strict=True)
    return dict(zip(keys, (ledger["time_ns"] / 1e9).tolist(), strict=True))
