"""Which processes of the job live on this node, and how each of them ended."""

from __future__ import annotations

import os
import select
from pathlib import Path

from ..clock import Clock
from ..store.layout import members_dir, node_name
from ..store.members import Member, read_members
from ..store.processes import boot_id


class MemberWatch:
    """Follows the members of this node by pidfd, which a reused pid does not confuse."""

    def __init__(self, run: Path, clock: Clock):
        self._run, self._clock = run, clock
        self._host, self._boot = node_name(), boot_id()
        self._poll = select.poll()
        self._pidfds: dict[int, str] = {}
        self._mtime = -1
        self.members: dict[str, Member] = {}
        self.gone: dict[str, int] = {}  # when it was noticed, monotonic ns; or its begin

    def refresh(self) -> list[Member]:
        """Members that joined or changed since the last call.

        Raises OSError: no descriptor or no memory is left to follow one; call it again.
        """
        try:
            mtime = members_dir(self._run).stat().st_mtime_ns
        except OSError:
            return []  # the directory vanished: keep the members so far
        if mtime == self._mtime:
            return []
        changed = []
        for member in read_members(self._run):
            if member.host != self._host or member.boot_id != self._boot:
                continue
            if self.members.get(member.file_name) == member:
                continue
            if member.file_name not in self.members:
                self._follow(member)
            self.members[member.file_name] = member
            changed.append(member)
        self._mtime = mtime  # not before: what could not be read or followed is tried again
        return changed

    def wait(self, seconds: float) -> None:
        """Sleep, but wake when a member dies."""
        for fd, _ in self._clock.wait_poll(self._poll, seconds):
            self.gone[self._pidfds.pop(fd)] = self._clock.now_ns()
            self._poll.unregister(fd)
            os.close(fd)

    def _follow(self, member: Member) -> None:
        try:
            fd = os.pidfd_open(member.pid)
        except ProcessLookupError:
            self.gone[member.file_name] = member.begin_ns  # when it died only its records can tell
            return
        if not member.alive():  # the pid was reused between the two calls
            os.close(fd)
            self.gone[member.file_name] = member.begin_ns
            return
        self._pidfds[fd] = member.file_name
        self._poll.register(fd, select.POLLIN)
