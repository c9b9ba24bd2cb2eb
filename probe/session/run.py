"""``probe.watch()``: wrap a training run, change nothing about it.

Start-up errors that are the user's to mend (a wrong argument) raise one clear
:class:`~probe.errors.UsageError`. Trouble with the machine (no space, a read-only
directory) prints one line and lets the training go on unwatched. After start-up
nothing of ours raises.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import ProbeError, StoreError
from ..instrument import PhaseEngine
from ..store.dashboard_address import address, port_for
from ..store.layout import node_dir, node_name, runs_dir
from ..store.live import Live, read_live
from ..store.members import Member
from ..store.processes import boot_id, start_ticks
from ..store.runs import create_run, new_run_id
from .clock_sync import agreed_key, meet
from .job import agree, current_job, device_request
from .options import options as checked
from .recorder_supervisor import Supervisor
from .ring_files import RingPlace

if TYPE_CHECKING:
    from ..report.build import Report

_Function = TypeVar("_Function", bound=Callable[..., Any])
_CHECK_NS = 1_000_000_000
_LONGEST_REASON = 300

_active: Run | None = None
_lock = threading.Lock()
_count = 0  # watches of this process so far: ranks of a job pair them by it


class Run:
    """One watched execution, seen from the training process."""

    def __init__(self, options: dict[str, Any], model: Any, optimizer: Any):
        """Create the run on disk, start its recorder and hook the training.

        Raises StoreError if the run cannot be recorded at all.
        """
        self.depth = 0
        self._pid = os.getpid()
        self._options = options
        self._job = current_job()
        self._closed = False
        self._next_check = 0
        self._declared: tuple[str, ...] = ()
        self._met: dict[str, Any] = {}  # what the ranks of other hosts told
        self._number = _count
        joined = os.environ.get("PROBE_RUN")
        self.path = Path(joined) if joined else self._create()
        place = RingPlace(self.path, self._job.rank, _count)
        self._engine = PhaseEngine(
            self._ring_opener(place),
            model=model,
            optimizer=optimizer,
            chores=self._chores,
            dither=options["dither"],
            modules=options["modules"],
        )
        self._member = self._introduce(place)
        self._supervisor = Supervisor(self.path, self._main_ring)
        try:
            self._member.write(self.path)
            if not joined:
                self._supervisor.start()
        except OSError as error:
            raise StoreError(f"cannot record into {self.path}: {error.strerror}") from None
        self._engine.install()

    @property
    def id(self) -> str:
        """The run's id, which is also its directory's name."""
        return self.path.name

    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Name what happens inside: ``with run.phase("eval"): …``; may be nested."""
        return self._engine.phase(name)

    def log(self, **values: Any) -> None:
        """Record numbers of this step: ``run.log(loss=loss, samples=len(x))``.

        ``samples`` and ``tokens`` are what this rank trained: those of all ranks are added up.
        Values are floats, ints or zero-dimensional tensors (read without a device sync).
        """
        self._engine.values.log(values)

    def live(self) -> Live | None:
        """Joules so far and watts now, a second or two old; None while nothing is known."""
        return read_live(self.path)

    def report(self) -> Report:
        """The report so far; ``print(run.report())`` shows it, ``.to_json()`` gives all of it."""
        from ..report.build import Report

        return Report.of(self.path)

    def close(self, *, failed: bool = False, exit_code: int = 0, error: str = "") -> None:
        """Unhook, hand the last edges over and wait (≤ 2 s) until they are sealed.

        ``error`` says in one line why it failed; it stands in the report.
        """
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        with contextlib.suppress(Exception):
            self._engine.uninstall()
        self._tell(self._info() | {"left": True} | ({"error": error} if failed and error else {}))
        self._engine.end(failed, exit_code)
        sealed = self._supervisor.await_seal()
        if not sealed and not self._supervisor.alive():
            log = node_dir(self.path) / "recorder.log"
            _say(f"phasewatt: the recorder is gone and the run is not sealed: see {log}")
        if self._main_ring.refused:
            _say(f"phasewatt: the disk refused the end of {self.path}; what was written is kept")

    def _create(self) -> Path:
        options, job = self._options, self._job
        directory = runs_dir(options["dir"])
        run_id = new_run_id(options["name"], time.time())
        if job.key is not None:
            import hashlib  # 2 ms that only a job of several ranks needs

            found = (agreed_key(job, f"key{_count}") if job.local_key else None) or job.key
            key = hashlib.sha256(f"{found}:{_count}".encode()).hexdigest()[:12]
            try:
                run_id = agree(directory, key, run_id, job.attempt)
            except OSError as error:
                raise StoreError(f"cannot write runs to {directory}: {error.strerror}") from None
        fields = {
            "name": options["name"] or Path(sys.argv[0] or "python").stem,
            "country": options["country"],
            "config": options["config"],
            "data": options["data"] or "unknown",
            "target": options["target"],
            "prometheus": options["prometheus"],
            "dashboard": options["dashboard"] and port_for(directory, options["dashboard"]),
        }
        run = create_run(directory, run_id, shared=job.key is not None, fields=fields)
        if fields["dashboard"] and job.rank == 0:
            _say(f"phasewatt: dashboard at {address(fields['dashboard'], run_id)}")
        return run

    def _ring_opener(self, place: RingPlace) -> Callable[[str, int], Any]:
        def opened(label: str, capacity: int) -> Any:
            ring = place.open(label, capacity)
            if label == "main":
                self._main_ring = ring
            return ring

        return opened

    def _introduce(self, place: RingPlace) -> Member:
        job = self._job
        return Member(
            role="rank",
            rank=job.rank,
            local_rank=job.local_rank,
            local_world_size=job.local_world_size,
            world_size=job.world_size,
            host=node_name(),
            boot_id=boot_id(),
            pid=self._pid,
            start_ticks=start_ticks(self._pid) or 0,
            begin_ns=time.monotonic_ns(),
            rings=str(place.folder),
            prefix=place.prefix,
            request=device_request(self._options["devices"], job),
            info=self._info(),
            attempt=job.attempt,
            attempts_left=job.attempts_left,
            launcher=(os.getppid(), start_ticks(os.getppid()) or 0),
        )

    def _info(self) -> dict[str, Any]:
        torch = sys.modules.get("torch")
        engine = self._engine
        return {
            "torch": str(getattr(torch, "__version__", "unknown")),
            "model_hash": engine.parameters_hash or "unknown",
            "model_found": engine.model_found or "unknown",
            "warnings": list(engine.warnings),
            "overhead": engine.overhead(),
            "stack": self._options.get("stack") or "unknown",
        } | self._met

    def _chores(self) -> None:
        now = time.monotonic_ns()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_NS
        self._supervisor.check(now)
        if not self._declared:
            self._declare_devices()
        if self._job.nodes > 1 and not self._met:
            self._meet()

    def _meet(self) -> None:
        """Once there is a process group, after the first step: ranks are close together then."""
        met = meet(self._job, self.id, f"clock{self._number}")
        if met is None:
            return
        for line in met.pop("warnings", ()):
            self._engine.warn(line)
        self._met = met or {"met": True}
        self._tell(self._info())

    def _tell(self, info: dict[str, Any]) -> None:
        self._member = dataclasses.replace(self._member, info=info)
        with contextlib.suppress(OSError):
            self._member.write(self.path)

    def _declare_devices(self) -> None:
        """Once CUDA is initialised, tell the recorder which cards this rank really uses."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or self._options["devices"] or not cuda.is_initialized():
            return
        index = cuda.current_device()
        uuid = getattr(cuda.get_device_properties(index), "uuid", None)
        if uuid is None:
            return
        self._declared = (f"GPU-{uuid}",)
        request = dataclasses.replace(self._member.request, uuids=self._declared)
        self._member = dataclasses.replace(self._member, request=request)
        with contextlib.suppress(OSError):
            self._member.write(self.path)


class _Unwatched:
    """Stands in for a Run that could not be recorded; every call does nothing."""

    depth = 0
    path: Path | None = None
    id = ""

    def __init__(self, reason: str):
        self._reason = reason

    def phase(self, _name: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def log(self, **_values: Any) -> None:
        return None

    def live(self) -> None:
        return None

    def report(self) -> str:
        return f"nothing was recorded: {self._reason}"

    def close(self, *, failed: bool = False, exit_code: int = 0, error: str = "") -> None:
        return None


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
            norm), as phases ``forward/attention`` and so on; four more records for each of them a
            step, with which the report's overhead reckons.

    Re-entering while a run is active gives the same run. Also a decorator.

    Raises:
        UsageError: an argument that cannot be used.
    """

    def __new__(cls, model: Any = None, *_args: Any, **_options: Any) -> Any:
        """``@probe.watch`` without parentheses decorates too."""
        if isinstance(model, FunctionType):
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
        config: dict[str, Any] | None = None,
        data: str | None = None,
        modules: bool = False,
    ):
        self._model, self._optimizer = model, optimizer
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
            dashboard=dashboard,
        )
        self._entered: list[Run | _Unwatched] = []

    def __enter__(self) -> Run:
        global _active, _count
        with _lock:
            run: Run | _Unwatched
            if _active is not None and _active._pid == os.getpid():
                run = _active
            else:
                _count += 1
                try:
                    run = _active = Run(self._options, self._model, self._optimizer)
                    atexit.register(run.close)
                except StoreError as error:
                    _say(f"phasewatt: {error}; the training goes on unwatched")
                    run = _Unwatched(str(error))
            run.depth += 1
        self._entered.append(run)
        return run  # type: ignore[return-value]  # _Unwatched has the same verbs

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
            run.close(failed=failed, exit_code=code, error=_reason(error) if failed else "")
            atexit.unregister(run.close)

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return watched  # type: ignore[return-value]


def phase(name: str) -> contextlib.AbstractContextManager[None]:
    """``run.phase(name)`` of the active run; does nothing when no run is active."""
    run = _active
    return run.phase(name) if run is not None else contextlib.nullcontext()


def attach() -> None:
    """Watch this process until it exits; what `probe run` does to the user's script."""
    with contextlib.suppress(ProbeError):
        watch().__enter__()


def _outcome(kind: type[BaseException] | None, error: BaseException | None) -> tuple[bool, int]:
    if kind is None or kind is GeneratorExit:
        return False, 0
    if isinstance(error, SystemExit):
        if error.code is None or error.code == 0:
            return False, 0
        return True, error.code if isinstance(error.code, int) else 1
    return True, 130 if isinstance(error, KeyboardInterrupt) else 1


def _reason(error: BaseException | None) -> str:
    """One line."""
    said = " ".join(str(error).split())[:_LONGEST_REASON]
    kind = type(error).__name__
    return f"{kind}: {said}" if said else kind


def _say(line: str) -> None:
    with contextlib.suppress(Exception):
        print(line, file=sys.stderr, flush=True)


__all__ = ["Run", "attach", "phase", "watch"]
