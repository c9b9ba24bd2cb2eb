"""The run that an entry begins with its framework's training and ends with it."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import UsageError
from ..session.jobs.job import current_job
from ..session.process_end import ProcessEnd
from ..session.unwatched import WatchedRun
from ..session.watch import active_run, start, watch
from ..store.live import look_live
from .live_numbers import LiveNumbers

_READ_NS = 2_000_000_000  # as long as a recorder's page may stay the same
_COUNTED_NS = 500_000_000  # what shorter steps train is logged together
_NEVER_ENDED = "the training was left without an end that its framework told"

_open: dict[int, TrainingRun] = {}  # trainings of this process that go on
_end_watched_in = 0  # the process whose end is told


class Trained(NamedTuple):
    """Samples and tokens, as many as are known."""

    samples: int  # of this rank
    tokens: int = 0  # of this rank
    samples_of_all: int = 0  # of all ranks together
    tokens_of_all: int = 0


class TrainingRun:
    """One training of a framework: the run that is active, else one of its own."""

    def __init__(
        self,
        options: dict[str, Any],
        *,
        must_end: bool = True,
        trained: Callable[[], Trained | None] = lambda: None,
    ):
        """Take the options of :class:`probe.watch`, all of them but model and optimizer.

        Args:
            must_end: a training that is left without :meth:`end` has failed.
            trained: what was trained since it was last called; None if nothing was. An entry calls
                :meth:`log_trained` in its steps, once :attr:`due_ns` has come.

        Raises:
            UsageError: one of them cannot be used.
        """
        try:
            watch(**options)  # checks them: an error belongs here, where the user wrote them
        except TypeError as error:
            raise UsageError(str(error).replace("watch.__init__()", "the entry")) from None
        self._options, self._must_end, self._trained = options, must_end, trained
        self.due_ns = 0  # when :meth:`log_trained` is to be called again
        self._run: WatchedRun | None = None
        self._subject: Callable[[], object] = lambda: None
        self._own = False
        self._nodes = 1
        self._numbers = LiveNumbers()
        self._read_ns = 0
        self._newest: dict[str, float] = {}

    @property
    def run(self) -> WatchedRun | None:
        """The run, from :meth:`begin` to :meth:`end`."""
        return self._run

    def begin(
        self, subject: object, model: Any = None, optimizer: Any = None, *, config: Any = None
    ) -> None:
        """A training begins; of two entries that hear of the same one the first does it.

        Args:
            subject: the framework's object for this training.
            model: the root module, as :class:`probe.watch` takes it.
            optimizer: the same.
            config: added to the run's.
        """
        for other in list(_open.values()):
            if other._subject() is subject:
                return
            if other._must_end:  # an exception left it, that somebody caught
                other.end(failed=True, error=_NEVER_ENDED)
        active = active_run()
        self._own = active is None
        self._subject, self._nodes = weakref.ref(subject), current_job().nodes
        self._numbers, self._read_ns, self._newest = LiveNumbers(), 0, {}
        self.due_ns = 0
        self._run = start(model, optimizer, **self._options) if active is None else active
        _open[id(self)] = self
        if self._own:
            atexit.unregister(self._run.close)  # ours knows whether it failed
            _watch_end()
        if config is not None:
            self._run.configure(config)

    def log_trained(self) -> None:
        """Log what was trained since this was last done."""
        trained = self._trained()
        if self._run is None or trained is None:
            return
        self.due_ns = time.monotonic_ns() + _COUNTED_NS
        if trained.tokens:
            self._run.log(samples=trained.samples, tokens=trained.tokens)
        else:
            self._run.log(samples=trained.samples)
        if trained.tokens_of_all:
            self._numbers.count("token", trained.tokens_of_all)
        else:
            self._numbers.count("sample", trained.samples_of_all)

    def numbers(self) -> dict[str, float]:
        """For the framework's log (:mod:`.live_numbers`), at most two seconds old."""
        if self._run is None:
            return {}
        now_ns = time.monotonic_ns()
        if now_ns - self._read_ns >= _READ_NS:
            self._read_ns = now_ns
            self.log_trained()
            self._newest = self._numbers.of(look_live(self._run.path), self._nodes)
        return dict(self._newest)

    def end(self, *, failed: bool = False, exit_code: int = 0, error: str = "") -> None:
        """The training is over; a run that was active before goes on."""
        try:
            self.log_trained()
        finally:
            run, self._run = self._run, None
            _open.pop(id(self), None)
            if run is not None and self._own:
                run.close(failed=failed, exit_code=exit_code or int(failed), error=error)

    def process_ends(self, failed: bool, exit_code: int, error: str) -> None:
        """The process ends, and the framework has not said that the training did."""
        if not failed and self._must_end:
            failed, error = True, _NEVER_ENDED
        self.end(failed=failed, exit_code=exit_code, error=error)


class _OpenTrainings:
    """What the end of the process closes."""

    def close(self, *, failed: bool = False, exit_code: int = 0, error: str = "") -> None:
        """End all trainings that are still open."""
        for training in list(_open.values()):
            training.process_ends(failed, exit_code, error)


def _watch_end() -> None:
    """Once in a process: how it ends is how a training ended that was left open."""
    global _end_watched_in
    if _end_watched_in != os.getpid():
        _end_watched_in = os.getpid()
        ProcessEnd(_OpenTrainings(), forked=False)
