"""Accelerate: ``Accelerator(log_with=PhasewattTracker())``."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

from .frameworks import imported
from .guard import guarded
from .training_run import TrainingRun

tracking = imported("accelerate", "1.0", "accelerate.tracking")


_GeneralTracker: Any = tracking.GeneralTracker


class PhasewattTracker(_GeneralTracker):  # type: ignore[misc]
    """Records from here on, on every rank, to ``accelerator.end_training()``.

    What ``accelerator.log`` is given goes into the run, what ``init_trackers(config=…)`` is given
    into its config. Accelerate calls trackers on the main process only, so the other ranks begin
    when the tracker is made and end with their process.

    Args:
        options: those of :class:`probe.watch`, by name: ``PhasewattTracker(name="bert")``.

    Raises:
        UsageError: an option cannot be used.
    """

    name = "phasewatt"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, **options: Any):
        super().__init__()
        self._training = TrainingRun(options, must_end=False)
        self._begin()

    @property
    def tracker(self) -> Any:
        """The :class:`probe.Run`; None once it has ended."""
        return self._training.run

    @guarded
    def _begin(self) -> None:
        self._training.begin(self)

    @guarded
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        if (run := self._training.run) is not None:
            run.configure(values)

    @guarded
    def log(self, values: Mapping[str, Any], step: int | None = None, **_others: Any) -> None:
        if (run := self._training.run) is not None:
            run.log({name: value for name, value in values.items() if _is_number(value)})

    @guarded
    def finish(self) -> None:
        self._training.end()


def _is_number(value: Any) -> bool:
    """Whether a run takes it: Accelerate allows texts, too."""
    return isinstance(value, numbers.Real) or getattr(value, "ndim", None) == 0
