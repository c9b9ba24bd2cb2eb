"""The estimator's statistics of a stored run: those that its recorder left, or computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..attribution.meter_kinds import accumulator_of
from ..attribution.regression.serialization import from_arrays
from ..attribution.regression.statistics import Statistics
from ..attribution.spans import Spans
from ..model import Source
from ..store import files
from ..store.layout import statistics_path
from ..store.reader import Series
from ..timeline.rank_timeline import Timeline
from ..units import NS_PER_S

_WINDOW_S = 60.0


def load_statistics(
    nodes: Sequence[Path],
    source: Source,
    rank: int,
    rings: Sequence[str],
    *,
    on_device: bool,
    damaged: Callable[[Path], None],
) -> Statistics | None:
    """The statistics that the recorder gathered over the whole run; None if it missed a part of it.

    Args:
        nodes: directories of the recorders that may have them.
        rank: whose phases.
        rings: of the rank, all that it wrote.
        on_device: the source is attributed on a device's own clock.
        damaged: hears of files that are there and cannot be read.
    """
    for node in nodes:
        path = statistics_path(node.parent, source.id, node.name[5:])
        arrays = files.read_arrays(path)
        if arrays is None:
            if path.exists():
                damaged(path)
            continue
        try:
            statistics, about = from_arrays(arrays)
        except ValueError:
            continue  # of another version
        saw_all = about["complete"] and not about["resumed"]
        same = about["rings"] == list(rings) and about.get("on_device", False) == on_device
        if saw_all and about["rank"] == rank and same:
            return statistics
    return None


def replay(
    series: Series,
    timeline: Timeline,
    run: tuple[int, int],
    origin_ns: int,
    restarts_ns: Sequence[int],
) -> Statistics:
    """Statistics of one meter and one rank's spans over ``run``, from raw data.

    The accumulator is the class that the recorder feeds, here minute by minute; its seconds count
    from ``origin_ns``.
    """
    accumulator = accumulator_of(series.source, (run[0] - origin_ns) / NS_PER_S)
    time_s = (series.time_ns - origin_ns) / NS_PER_S
    span_s = series.span_ns / NS_PER_S
    begin_s = (timeline.begin_ns - origin_ns) / NS_PER_S
    end_s = (timeline.end_ns - origin_ns) / NS_PER_S
    restarts = sorted((t - origin_ns) / NS_PER_S for t in restarts_ns)
    last = float(max(time_s[-1], end_s[-1] if len(end_s) else 0.0))
    first = float(min(time_s[0], begin_s[0] if len(begin_s) else 0.0))
    reads = spans = 0
    for until in np.arange(first + _WINDOW_S, last + _WINDOW_S, _WINDOW_S):
        to = int(np.searchsorted(end_s, until, "right"))
        accumulator.feed_spans(Spans(begin_s[spans:to], end_s[spans:to], timeline.code[spans:to]))
        spans = to
        to = int(np.searchsorted(time_s, until, "right"))
        for restart in [r for r in restarts if r <= until]:
            at = max(reads, int(np.searchsorted(time_s, restart, "left")))
            accumulator.feed_reads(time_s[reads:at], span_s[reads:at], series.value[reads:at])
            accumulator.interrupt()
            reads = at
            restarts.remove(restart)
        accumulator.feed_reads(time_s[reads:to], span_s[reads:to], series.value[reads:to])
        reads = to
        accumulator.advance()
    return accumulator.finish((run[1] - origin_ns) / NS_PER_S)
