# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""Marks of one thread in its ring: the phase from now on, unless the user named one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from ..ring import pure as cython

from ..ring.layout import Record
from .signal_handler import Receiver

if not cython.compiled:
    from time import monotonic_ns

if TYPE_CHECKING:
    from ..ring.writer import RingWriter
    from .device_clock import DeviceClock

MARK = int(Record.MARK)  # an IntEnum member costs a lookup at every edge


class Marks(Receiver):
    """Writes a mark where the phase changes; names that the user gave go first."""

    __slots__ = (
        "_allocated", "_current", "_device", "_enriched", "_plain", "_slots", "_user",
    )  # fmt: skip

    def __init__(self, ring: RingWriter):
        self._allocated: Callable[[], int] | None = None
        self._device: DeviceClock | None = None
        self._enriched = False  # marks carry bytes or edges of a device
        self._plain = True  # not enriched, no name of the user's: a mark is one write
        self._slots = ring.slots
        self._current = -1
        self._user: list[int] = []

    @abstractmethod
    def base(self) -> int:
        """The phase, if the user named none."""

    def _force(self, code: int) -> None:
        """Write a mark whatever the user named."""
        self._current = code
        time_ns = monotonic_ns()
        allocated = -1 if self._allocated is None else self._allocated()
        self._slots.write_at(time_ns, MARK, code, allocated)
        if self._device is not None:
            self._device.mark(time_ns, code)

    def enrich(self, allocated: Callable[[], int] | None, device: DeviceClock | None) -> None:
        """Let marks carry the allocator's bytes and edges of a device from now on."""
        self._allocated, self._device = allocated, device
        self._enriched = allocated is not None or device is not None
        self._plain = not self._user and not self._enriched

    def user_enter(self, code: int) -> None:
        self._user.append(code)
        self._named(code)

    def user_leave(self, code: int) -> None:
        """Leaves may come out of order (generators); the innermost name left over wins."""
        user = self._user
        if user and user[-1] == code:
            user.pop()
        elif code in user:
            del user[len(user) - 1 - user[::-1].index(code)]
        self._named(user[-1] if user else self.base())

    def _named(self, code: int) -> None:
        self._plain = not self._user and not self._enriched
        if self._enriched:
            self._force(code)
        else:
            self._current = code
            self._slots.write(MARK, code, -1)
