"""When sensors read, in one place.

A wake-up costs more than most reads do, and less while the processor is awake already. So a
counter whose updates can be predicted is sampled sparsely, and sensors that are free to choose read
at common instants.

==========================  =========================================  ==========================
what                        is read                                    rule
==========================  =========================================  ==========================
NVML energy counter, new    every 10 ms, after 2 s every 20 ms         ``update_tracker``: search
  its updates predicted     in bursts of about 4 reads, so that each   ``update_tracker``
                            update lies between two close reads
  predicted for 80 updates  one burst, then 8 single reads (1 read of  ``SPARSE_READS``,
  (stable)                  a counter of 20 ms), each between two      ``STABLE_AFTER``,
                            updates and on the grid of 50 ms           :func:`grid_instant`
  stable, then off by 35 %  in bursts again                            ``STABLE_ERROR``
  faster than 16 ms         every 20 ms, irregular, or every 24 ms     ``update_tracker``
                            with further reads close behind
  it fails                  after a pause that grows to 1 s            ``energy_counter``
NVML gauges                 every 0.1–10 s; 50 ms and slower: 1 ms     :func:`on_grid`
                            after the grid of 50 ms
NVML power that counts       as a counter; else every 0.5 s             ``tracked_power``
NVML power and utilisation  before the driver's buffer is full,        ``sample_buffer``
                            every 2 s at most
rank_process                every 50 ms, after a minute every 200 ms;  ``rank_process``
                            irregular
host, codecarbon            every 1 s and 2 s, 1 ms after the grid     :func:`on_grid`
RAPL                        every 20 ms, irregular; 1 s outside the    ``rapl``
                            total
Intel and AMD counters      every 20 ms, irregular                     ``_polled``
Jetson                      every 50 ms                                ``_polled``
pm_counters                 every 100 ms, as often as it moves         ``_polled``
IPMI, Redfish               every 10 s, each call with a time limit    ``_polled``
recorder                    5 to 20 rounds a second, 3 ms after the    ``recorder/schedule``
                            grid, when all sensors have read
==========================  =========================================  ==========================

Reads of counters that move faster than they are read are irregular. Evenly spaced, they could fall
into the same phase of every step, or on the same age of the counter's value.
"""

from __future__ import annotations

import random

from ..units import NS_PER_MS

GRID_NS = 50 * NS_PER_MS
_FINER_GRIDS_NS = tuple(NS_PER_MS * ms for ms in (25, 10, 5))
_AFTER_NS = NS_PER_MS  # the counters on the grid have been read by then

STABLE_AFTER = 80  # updates that a prediction is followed before the counter counts as stable
STABLE_ERROR = 0.35  # mean error of a stable prediction, in spacings; a bracket alone gives 0.25
SPARSE_READS = 8  # updates of a stable counter that are read once, after one with a burst
SPARSE_READS_FAST = 1  # the same of a counter of 20 ms, whose update times are worth more

_IRREGULAR = 0.3  # share of a period by which it differs


def on_grid(time_ns: int) -> int:
    """The first common instant from ``time_ns`` on, for sensors that are free to choose."""
    return time_ns + (_AFTER_NS - time_ns) % GRID_NS


def grid_instant(low_ns: float, high_ns: float) -> int:
    """An instant between two times, on the coarsest grid that has one near their middle."""
    middle_ns = (low_ns + high_ns) / 2
    for grid_ns in (GRID_NS, *_FINER_GRIDS_NS):
        nearest_ns = round(middle_ns / grid_ns) * grid_ns
        if low_ns <= nearest_ns <= high_ns:
            return nearest_ns
    return round(middle_ns)


class IrregularPeriods:
    """Periods that vary around their mean, the same in every run."""

    def __init__(self) -> None:
        self._random = random.Random(0)

    def next_share(self) -> float:
        """The next period over its mean."""
        return irregular_share(self._random)


def irregular_share(source: random.Random) -> float:
    """One irregular period over the mean."""
    return source.uniform(1 - _IRREGULAR, 1 + _IRREGULAR)
