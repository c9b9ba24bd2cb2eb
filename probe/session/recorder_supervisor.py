"""The training process's side of the recorder: start it, replace it when it died, await the seal.

Most of it is a few reads of the ring's header; the only system calls on the training thread are the
start, the replacements of a recorder that died, which become ever rarer, and the wait at the end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from ..clock import Clock
from ..model import RunStatus
from ..recorder.spawn import claim, current_epoch, signed, spawn, spawn_aside
from ..ring.writer import RingWriter
from ..store.files import read_fields
from ..store.layout import lease_path, node_dir
from ..store.processes import boot_id, is_alive, start_ticks
from ..store.runs import status_file

SEAL_WAIT_S = 2.0
START_WAIT_S = 10.0  # it takes some 20 ms
FIRST_BEAT_S = 10.0  # without a sign of life
SLOW_START_S = 60.0  # of one that lives, on an overloaded machine
STALE_S = 5.0  # a recorder beats twice a second
FRESH_S = 1.5  # younger than this, its process need not be looked for
REAP_S = 0.3
POLL_S = 0.002
# A recorder that keeps dying is started again after 1, 2, 4 … 60 s, and then every ten minutes.
LONGEST_PAUSE_S, LAST_PAUSE_S = 60.0, 600.0
OFTEN = 20
_HELD = "the disk refuses what is recorded (is it full?); what fits is kept in memory"


class Supervisor:
    """Supervises the recorder of one run on this node from one training process."""

    def __init__(self, run: Path, ring: RingWriter, clock: Clock):
        self._run, self._ring, self._clock = run, ring, clock
        self._said = ""  # why nothing is recorded at the moment, as it was said
        self._started_ns = clock.now_ns()
        self._child: subprocess.Popen[bytes] | None = None
        self._revived = False  # the recorder was dead when its seal was waited for

    def start(self, *, wait: bool = True) -> None:
        """Start the recorder unless another rank of this node did. Raises OSError.

        Args:
            wait: until it is no child of this process any more; else :meth:`check` sees to it.
        """
        for epoch in (1, self._orphaned()):
            if epoch and claim(self._run, epoch):
                # Waited for: it must not appear in the user's waitpid.
                self._child = spawn(self._run, epoch)
                if not wait:
                    return
                # Not longer: an interpreter that cannot start must not keep the training.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(START_WAIT_S)
                    self._child = None
                return

    def _orphaned(self) -> int:
        """The next fencing number if the recorder of an earlier attempt is dead, else 0."""
        status = read_fields(status_file(self._run)) or {}
        recorder = status.get("recorder") or {}
        epoch = current_epoch(self._run)
        process = signed(self._run, epoch)
        if process is not None and not is_alive(*process) and status.get("boot_id") == boot_id():
            return epoch + 1  # it died before it wrote its status, or it has collected the rings
        if not recorder or recorder.get("epoch") != epoch:
            return 0  # the newest recorder has not written its status yet
        running = status.get("status") == RunStatus.RUNNING and status.get("boot_id") == boot_id()
        if running and is_alive(int(recorder["pid"]), int(recorder["start_ticks"])):
            return 0
        return epoch + 1

    def check(self, now_ns: int) -> str:
        """Replace a recorder that died or hangs. Never raises.

        Returns:
            One line for the user when recording stops and when it goes on; else nothing.
        """
        with contextlib.suppress(OSError):
            if self._child is not None:
                if self._child.poll() is None:
                    return ""
                self._child = None
            beating = self._beating(now_ns)
            if not beating and (epoch := self._vacant(lambda: not self._beating(now_ns))):
                if not self._replace(epoch):
                    return ""  # another rank did, and says so
                return self._changed("the recorder has stopped; another one is started")
            if beating and self._ring.heartbeat_ns:
                if not self._ring.held:
                    return self._changed("")
                return self._changed(_HELD if self._run.is_dir() else self._gone())
        return ""

    def _gone(self) -> str:
        return f"{self._run} was moved or removed: nothing is recorded any more"

    def _changed(self, why: str) -> str:
        """What to say if this is news."""
        before, self._said = self._said, why
        if why == before:
            return ""
        return f"phasewatt: {why}" if why else f"phasewatt: {self._run.name} is recorded again"

    def await_seal(self, most_s: float = SEAL_WAIT_S) -> bool:
        """Wait until the run is sealed on disk, 2 s at most if not told otherwise. Never raises.

        A recorder that is dead by now is replaced, so that the run is sealed.
        """
        deadline_s = self._clock.monotonic_s() + most_s
        while not self._ring.sealed:
            if self._clock.monotonic_s() > deadline_s:
                return False
            with contextlib.suppress(OSError):
                if not self._revived and (
                    epoch := self._vacant(
                        lambda: self.has_died() and not self._ring.sealed, paused=False
                    )
                ):
                    self._revived = True
                    self._replace(epoch)
                if self._revived and self._newest_died():
                    return False
            self._clock.sleep(POLL_S)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if self._child is not None:
                self._child.wait(SEAL_WAIT_S)
        self._reap()
        return True

    def why_unsealed(self) -> str:
        """One line if a recorder died before it had closed the run's files; else nothing."""
        if self._revived and not self._newest_died():
            return "phasewatt: the recorder died; another one closes the run's files now"
        if not self.has_died():
            return ""
        log = node_dir(self._run) / "recorder.log"
        state = "is gone" if self.has_started() else "has not started"
        return f"phasewatt: the recorder {state} and the run's files are not closed: see {log}"

    def has_started(self) -> bool:
        """True once a recorder has come to this process's ring."""
        return self._ring.reader_epoch > 0

    def _vacant(self, gone: Callable[[], bool], *, paused: bool = True) -> int:
        """The fencing number to claim if no recorder runs or is starting here; else 0.

        With ``paused`` also 0 while it is too early for another try.

        The number is read before ``gone`` is asked again: ranks that notice the same death at the
        same time then claim the same number, and one of them gets it.
        """
        if not gone():
            return 0
        newest = current_epoch(self._run)
        if self._starting(newest, paused=paused):
            return 0  # started, perhaps by another rank
        return newest + 1 if gone() else 0

    def _starting(self, epoch: int, *, paused: bool) -> bool:
        """True if this recorder was started too lately for another one to be started."""
        with contextlib.suppress(OSError):
            age_s = self._clock.wall_s() - lease_path(self._run, epoch).stat().st_mtime
            if paused and age_s < pause_s(epoch):
                return True
            if epoch > self._ring.reader_epoch:
                process = signed(self._run, epoch)
                if process is None:
                    return age_s < FIRST_BEAT_S
                return age_s < SLOW_START_S and is_alive(*process)
        return False

    def _replace(self, epoch: int) -> bool:
        """Start a recorder under this number; False if another rank of the node has."""
        if not claim(self._run, epoch):
            return False
        self._child = spawn_aside(self._run, epoch)
        return True

    def _dead(self) -> bool:
        pid = self._ring.reader_pid
        return bool(pid) and start_ticks(pid) is None  # a zombie is dead, too

    def has_died(self) -> bool:
        """Whether the recorder is dead, also one that died before its first beat."""
        return self._dead() if self._ring.reader_pid else self._newest_died()

    def _newest_died(self) -> bool:
        process = signed(self._run, current_epoch(self._run))
        return process is not None and not is_alive(*process)

    def _beating(self, now_ns: int) -> bool:
        beat = self._ring.heartbeat_ns
        if not beat:
            if now_ns - self._started_ns >= FIRST_BEAT_S * 1e9:
                return False
            return not self.has_died()
        if now_ns - beat < FRESH_S * 1e9:
            return True
        return not self._dead() and now_ns - beat < STALE_S * 1e9

    def _reap(self) -> None:
        # Where the trainer is process 1 (a container) or a subreaper, the detached
        # recorder becomes its child after all: take it away before the user sees it.
        pid = self._ring.reader_pid
        deadline_s = self._clock.monotonic_s() + REAP_S
        with contextlib.suppress(OSError):
            while pid and self._clock.monotonic_s() < deadline_s:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    return
                self._clock.sleep(POLL_S)


def pause_s(epoch: int) -> float:
    """Seconds after the start of the recorder with this number until the next may be started."""
    if epoch > OFTEN:
        return LAST_PAUSE_S
    return min(LONGEST_PAUSE_S, 2.0 ** (epoch - 2)) if epoch > 1 else 0.0
