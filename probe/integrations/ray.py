"""Ray Train: ``TorchTrainer(watched(train_loop), …)`` records in every worker."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..session.process_end import reason_of
from ..store.layout import runs_dir
from .frameworks import imported
from .guard import guarded
from .training_run import TrainingRun

train = imported("ray", "2.40", "ray.train")

_current: _Worker | None = None  # the training of this worker


def watched(train_loop_per_worker: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A loop for ``TorchTrainer`` that records while it runs: the workers are ranks of one run.

    Runs are kept where the process that calls this would keep them. A worker group that Ray starts
    again after a failure is a run of its own.

    Args:
        train_loop_per_worker: as ``TorchTrainer`` takes it, with a config or without one, which is
            added to the run's config.
        options: those of :class:`probe.watch`, by name: ``watched(train_loop, name="bert")``.

    Raises:
        UsageError: an option cannot be used.
    """
    TrainingRun(options)  # an error belongs here, where the user wrote them
    # A worker has a working directory of its own.
    options["dir"] = str(runs_dir(options.get("dir")).absolute())

    @functools.wraps(train_loop_per_worker)
    def loop(*args: Any) -> Any:
        worker = _Worker(options)
        worker.begin(loop, args[0] if args else {})
        try:
            result = train_loop_per_worker(*args)
        except BaseException as error:
            worker.end(failed=True, error=reason_of(error))
            raise
        worker.end()
        return result

    loop.__signature__ = inspect.signature(train_loop_per_worker)  # type: ignore[attr-defined]
    return loop


def energy() -> dict[str, float]:
    """What the run has used so far, by the keys of :mod:`.live_numbers`, for ``ray.train.report``.

    Empty where no meter measures, and outside of a loop that is :func:`watched`.
    """
    return {} if _current is None else (_current.numbers() or {})


class _Worker:
    """The training of a worker; no method raises."""

    def __init__(self, options: dict[str, Any]):
        self._training = TrainingRun(options)

    @guarded
    def begin(self, loop: object, loop_config: Any) -> None:
        global _current
        _current = self
        context = train.get_context()
        config = {
            "trainer": {
                "experiment": context.get_experiment_name(),
                "workers": context.get_world_size(),
            },
            "train_loop_config": loop_config,
        }
        self._training.begin(loop, config=config)

    @guarded
    def numbers(self) -> dict[str, float]:
        return self._training.numbers()

    @guarded
    def end(self, *, failed: bool = False, error: str = "") -> None:
        global _current
        _current = None
        self._training.end(failed=failed, error=error)
