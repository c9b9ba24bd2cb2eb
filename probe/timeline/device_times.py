"""The records of a ring at the times when the accelerator reached them, as they come or at once.

A mark's device time follows it in the same ring, when its event is complete. An edge without a
device time of its own (its event was dropped) lags as its neighbours do.
"""

from __future__ import annotations

import numpy as np

from ..attribution.arrays import Floats, Times
from ..ring.layout import Record
from ..ring.reader import SLOT_DTYPE
from .span_table import Rows


class DeviceTimeShift:
    """Moves edges to when the device reached them. Feed one main ring's records in order."""

    def __init__(self) -> None:
        self.marks = 0
        self.with_device_time = 0  # of them with a device time
        self._held: list[Rows] = []  # until the device times around them are known
        self._host: Times = np.empty(0, np.int64)
        self._lag: Floats = np.empty(0)
        self._removed = 0  # records of device times so far: no hole where they were
        self._latest_ns = 0

    @property
    def is_known(self) -> bool:
        """False while less than half of the marks have a device time."""
        return self.with_device_time >= max(1, self.marks // 2)

    def count(self, rows: Rows) -> None:
        """Instead of :meth:`feed`, where only :attr:`is_known` is asked for."""
        self.marks += int(np.count_nonzero(rows["kind"] == Record.MARK))
        self.with_device_time += int(np.count_nonzero(rows["kind"] == Record.DEVICE))

    def feed(self, rows: Rows) -> Rows:
        """Take records; return those whose device time is settled by now, moved."""
        self.count(rows)
        device = rows["kind"] == Record.DEVICE
        kept = rows[~device].copy()
        kept["sequence"] -= (self._removed + np.cumsum(device)[~device]).astype(np.uint32)
        self._removed += int(device.sum())
        if len(kept):
            self._held.append(kept)
        device_times = rows[device]
        if not len(device_times):
            return rows[:0]
        host = np.concatenate([self._host, device_times["time_ns"].astype(np.int64)])
        order = np.argsort(host, kind="stable")
        lag = device_times["payload"] - device_times["time_ns"].astype(np.int64)
        self._host, self._lag = host[order], np.concatenate([self._lag, lag])[order]
        return self._move(int(self._host[-1]))

    def drop(self) -> None:
        """Forget the records that are held."""
        self._held = []

    def finish(self) -> Rows:
        """Return the records that were held back, moved."""
        return self._move(None)

    def _move(self, until_ns: int | None) -> Rows:
        if not self._held:
            return np.empty(0, SLOT_DTYPE)
        held = np.concatenate(self._held)
        if not len(self._host):
            self._held = [held]
            return held[:0]
        ready = len(held)
        if until_ns is not None:
            late = np.flatnonzero(held["time_ns"].astype(np.int64) > until_ns)
            ready = int(late[0]) if len(late) else ready
        moved, self._held = held[:ready], [held[ready:]] if ready < len(held) else []
        time_ns = moved["time_ns"].astype(np.int64)
        shifted = time_ns + np.interp(time_ns, self._host, self._lag).astype(np.int64)
        if ready:
            shifted = np.maximum.accumulate(np.maximum(shifted, self._latest_ns))
            self._latest_ns = int(shifted[-1])
        moved["time_ns"] = shifted
        # Later rows lie behind the last of these: it is all that they need.
        self._host, self._lag = self._host[-1:], self._lag[-1:]
        return moved


def on_device(rows: Rows) -> Rows | None:
    """All records of a ring at once; None if less than half of the marks have a device time."""
    moving = DeviceTimeShift()
    parts = [moving.feed(rows), moving.finish()]
    return np.concatenate(parts) if moving.is_known else None
