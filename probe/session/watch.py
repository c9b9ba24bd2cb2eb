"""``probe.watch()``: wrap a training run, change nothing about it.

A wrong argument raises one clear :class:`~probe.errors.UsageError`. A problem of the machine (no
space, a read-only directory) prints one line, and the training goes on unwatched. After start-up
nothing of ours raises.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, TypeVar

from ..clock import MACHINE_CLOCK
from ..errors import ProbeError, StoreError, UsageError
from ..store.layout import runs_dir
from .arguments import model_and_optimizer
from .messages import say
from .options import options as checked
from .process_end import ProcessEnd, reason_of
from .run import Run
from .unwatched import UnwatchedRun, WatchedRun

_Function = TypeVar("_Function", bound=Callable[..., Any])

_LATE = (
    "the first forward is missing: without an optimizer or a loader a training shows at its first "
    "backward; `with probe.watch():` records from its begin on"
)

_active: Run | None = None
_lock = threading.Lock()
_count = 0  # runs of this process so far
_not_entered: weakref.WeakSet[watch] = weakref.WeakSet()


class watch:  # noqa: N801 (a context manager and decorator that reads as a verb)
    """Watch a training run: ``with probe.watch(model, optimizer, name="resnet50") as run:``.

    Every argument is optional; each also has a variable ``PROBE_…``.

    Args:
        model: the root module; without it the first optimizer step finds it.
        optimizer: only needed when its steps are compiled.
        name: for people, and for ``probe compare``.
        dir: where runs are kept (``./runs``).
        devices: GPUs to measure, as indices or UUIDs ("0,2").
        country: ISO 3166 alpha-3 code for the carbon intensity ("FRA").
        prometheus: port where the recorder serves the run's metrics while it lasts, on loopback;
            "host:port" with a token in PROBE_TOKEN for other machines.
        dashboard: serve the dashboard of the directory of runs while this one goes on and a while
            longer, on loopback; True, or a port (8050). The address is printed.
        target: the metric that ends a comparison, as ``"accuracy>=0.95"``.
        dither: share of steps (0.1: one in ten) that begin with a random rest of up to 20 ms,
            as a phase of its own; only for steps in lock with the meter, of which the report
            warns.
        config: anything that JSON can hold; stands in run.json.
        data: the data set's name.
        modules: tell forward and backward apart by kind of module (attention, MLP, convolution,
            norm), as phases ``forward/attention`` and so on; on CUDA forward only, since backward
            runs in another thread there. Four more records for each of them a step, with which
            the report's overhead reckons.
        classify: count the operations of the first step, so that ``probe compare`` can tell
            memory-bound work from the rest; read off autograd's graph, nothing is run again. The
            first time on a machine its rates are measured, in about 0.3 s. All of it is start-up.
        resume: the directory of a run that was ended and that this training continues from its
            last checkpoint: another attempt of the same run, whose energies add up. A run that
            finished, or was recorded on another boot of the machine, is not continued: a line says
            so, and this is a run of its own. Below `probe run` it is that command's run.
        hang_after: minutes. A process of the training that records nothing for so long (no step, no
            change of phase) is named in the report's warnings: rank, phase, since when, and where
            its threads stand. The run's directory gets their stacks, written by `faulthandler`,
            whose timer a script then cannot use itself. Nothing is ended. Longer than the longest
            step, evaluation and save.

    Re-entering while a run is active gives the same run. Also a decorator.

    Raises:
        UsageError: an argument that cannot be used.
    """

    def __new__(cls, model: Any = None, *_args: Any, **_options: Any) -> Any:
        """``@probe.watch`` without parentheses decorates too."""
        if isinstance(model, FunctionType):
            if _args or _options:
                raise UsageError(
                    "model is a function: pass the torch.nn.Module, or decorate the function: "
                    "@probe.watch(name=…)"
                )
            return cls()(model)
        return super().__new__(cls)

    def __init__(
        self,
        model: Any = None,
        optimizer: Any = None,
        *,
        name: str | None = None,
        dir: str | os.PathLike[str] | None = None,  # noqa: A002 (the contract's name)
        devices: str | list[int] | None = None,
        prometheus: int | str | None = None,
        dashboard: bool | int = False,
        country: str | None = None,
        dither: float | None = None,
        target: str | None = None,
        config: Any = None,
        data: str | None = None,
        modules: bool = False,
        classify: bool = False,
        resume: str | os.PathLike[str] | None = None,
        hang_after: float | None = None,
    ):
        self._model, self._optimizer = model_and_optimizer(model, optimizer)
        self._options = checked(
            name=name,
            dir_=dir,
            devices=devices,
            prometheus=prometheus,
            country=country,
            dither=dither,
            target=target,
            config=config,
            data=data,
            modules=modules,
            classify=classify,
            dashboard=dashboard,
            resume=resume,
            hang_after=hang_after,
        )
        self._entered: list[Run | UnwatchedRun] = []
        if not _not_entered:
            atexit.register(_remind)
        _not_entered.add(self)

    def __getattr__(self, name: str) -> Any:
        """A run's method is called on what was never entered."""
        raise AttributeError(
            f"{name}: nothing is recorded before `with probe.watch(…) as run:` "
            "or `run = probe.start(…)`"
        )

    def __enter__(self) -> WatchedRun:
        run = self._begin()
        with _lock:
            run.depth += 1
        self._entered.append(run)
        return run

    def _begin(self) -> Run | UnwatchedRun:
        """The run that is active in this process; else a new one."""
        global _active, _count
        _not_entered.discard(self)
        with _lock:
            if _active is not None and _active.pid == os.getpid() and not _active.closed:
                return _active
            _count += 1
            try:
                run = _active = Run(
                    self._options, self._model, self._optimizer, _count, MACHINE_CLOCK
                )
                atexit.register(run.close)
                return run
            except StoreError as error:
                say(f"phasewatt: {error}; the training goes on unwatched")
                return UnwatchedRun(str(error), runs_dir(self._options.dir), os.getpid())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        global _active
        run = self._entered.pop()
        with _lock:
            run.depth -= 1
            if run.depth > 0:
                return
            if run is _active:
                _active = None
        failed, code = _outcome(kind, error)
        with contextlib.suppress(Exception):
            run.close(failed=failed, exit_code=code, error=reason_of(error) if failed else "")
            atexit.unregister(run.close)

    def __call__(self, function: _Function) -> _Function:
        _not_entered.discard(self)

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return watched  # type: ignore[return-value]


def active_run() -> Run | None:
    """The run that is recorded in this process now; None without one."""
    run = _active
    usable = run is not None and run.pid == os.getpid() and not run.closed
    return run if usable else None


def phase(name: str) -> contextlib.AbstractContextManager[None]:
    """Name a part of the training that is being watched: ``with probe.phase("sampling"): …``.

    The report gets a row of this name, with the seconds and joules of all its visits together. A
    phase may be nested and entered again. Without an active run nothing happens; nothing is raised.

    Args:
        name: any text; the name of a built-in phase (``eval``) adds to that one.
    """
    run = _active
    return run.phase(name) if run is not None and not run.closed else contextlib.nullcontext()


def start(model: Any = None, optimizer: Any = None, **options: Any) -> WatchedRun:
    """Begin to watch at once, for callbacks and notebooks: ``run = probe.start(model)``.

    The arguments are those of :class:`watch`. ``run.close()`` ends the run; else it ends with the
    process. While a run is active it is returned, and a line says so; a forked child gets its
    parent's run, on which every call does nothing.

    Raises:
        UsageError: an argument that cannot be used.
    """
    active = _active
    if active is not None and not active.closed:
        if active.pid == os.getpid():
            say(f"phasewatt: {active.id} is already being recorded; `close()` it to begin another")
        return active
    run = watch(model, optimizer, **options)._begin()
    with _lock:
        run.depth += 1
    return run


def _remind() -> None:
    """At exit: a watch that was never entered has recorded nothing."""
    if len(_not_entered):
        say("phasewatt: nothing was recorded: write `with probe.watch(…):` or `probe.start(…)`")


def attach(*, forked: bool = False, late: bool = False) -> None:
    """Watch this process until it exits; what `probe run` does to the user's script.

    Args:
        forked: no interpreter was started for this process: it may end past all of atexit.
        late: nothing told that it trains before its first backward.
    """
    with contextlib.suppress(ProbeError):
        run = watch().__enter__()
        if late and isinstance(run, Run):
            run.note(_LATE)
        ProcessEnd(run, forked=forked)


def _outcome(kind: type[BaseException] | None, error: BaseException | None) -> tuple[bool, int]:
    """(whether the block failed, the exit code of the process)."""
    if kind is None or kind is GeneratorExit:
        return False, 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return code != 0, code
    return True, 130 if isinstance(error, KeyboardInterrupt) else 1
