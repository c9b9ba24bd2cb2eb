"""Keras 3: ``model.fit(…, callbacks=[PhasewattCallback()])``."""

from __future__ import annotations

import contextlib
from typing import Any

from .frameworks import imported
from .guard import guarded
from .live_numbers import PREFIX
from .training_run import TrainingRun

keras = imported("keras", "3.0")

# Keras and its CSV log take the metrics of the first epoch for those of all.
_LOGGED = (PREFIX + "energy_j", PREFIX + "watts")
_UNKNOWN = float("nan")
_BATCH = "train"  # forward to optimizer, where one compiled function does them all
_FIRST_BATCH = "startup/compile"


_Callback: Any = keras.callbacks.Callback


class PhasewattCallback(_Callback):  # type: ignore[misc]
    """Records each ``fit()`` as a run, or as part of the run that is active.

    With the torch backend all phases are found. Other backends compile forward, backward and update
    into one function: there the phases are ``train`` (a batch; the first, in which it is compiled,
    is ``startup/compile``), ``data`` (what lies between two) and ``eval``, by the events of
    callbacks. For these Keras waits until each batch is done.

    Every epoch's logs get ``phasewatt/energy_j`` and ``phasewatt/watts`` where a meter measures;
    NaN as long as it was not read. The run gets the numbers of each epoch, and the settings of
    ``fit`` and of the optimizer as its config.

    Args:
        options: those of :class:`probe.watch`, by name: ``PhasewattCallback(name="unet")``.

    Raises:
        UsageError: an option cannot be used.
    """

    def __init__(self, **options: Any):
        super().__init__()
        self._training = TrainingRun(options)
        self._finds_phases = keras.backend.backend() == "torch"
        if self._finds_phases:  # called in every step, for nothing
            self.__dict__.update(on_train_batch_begin=_nothing, on_train_batch_end=_nothing)
        self._keys: tuple[str, ...] | None = None  # of the logs; None before the first epoch's
        self._phase = contextlib.ExitStack()  # the one of :meth:`_enter`
        self._compiled = False  # the training's function
        self._batches = self._batches_per_step = 1

    @guarded
    def on_train_begin(self, logs: Any = None) -> None:
        self._keys, self._compiled, self._batches = None, False, 0
        optimizer = getattr(self.model, "optimizer", None)
        self._batches_per_step = getattr(optimizer, "gradient_accumulation_steps", None) or 1
        model = self.model if self._finds_phases else None
        self._training.begin(self.model, model, config=_config(self.model, self.params))

    @guarded
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._enter("data")

    @guarded
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._enter(_BATCH if self._compiled else _FIRST_BATCH)

    @guarded
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._compiled = True
        self._enter("data")
        self._batches += 1
        if self._batches % self._batches_per_step == 0 and (run := self._training.run) is not None:
            run.step()

    @guarded
    def on_test_begin(self, logs: Any = None) -> None:
        self._enter("eval")

    @guarded
    def on_test_end(self, logs: Any = None) -> None:
        self._enter("")

    @guarded
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._enter("")
        if (run := self._training.run) is None or logs is None:
            return
        run.log(dict(logs))
        numbers = self._training.numbers()
        if self._keys is None:
            no_meter = not numbers and run.live() is not None
            self._keys = () if no_meter else _LOGGED
        logs.update({key: numbers.get(key, _UNKNOWN) for key in self._keys})

    @guarded
    def on_train_end(self, logs: Any = None) -> None:
        self._enter("")
        self._training.end()

    def _enter(self, phase: str) -> None:
        """The next phase of a backend whose phases are not found; none if it is empty."""
        if self._finds_phases:
            return
        self._phase.close()
        if phase and (run := self._training.run) is not None:
            self._phase.enter_context(run.phase(phase))


def _nothing(batch: int, logs: Any = None) -> None:
    pass


def _config(model: Any, fit: dict[str, Any] | None) -> dict[str, Any]:
    """The settings of a training, those that Keras shows."""
    optimizer: Any = getattr(model, "optimizer", None)
    return {
        "trainer": {"backend": keras.backend.backend(), "keras": keras.__version__}
        | {name: value for name, value in (fit or {}).items() if name != "verbose"},
        "model": {"name": model.name, "parameters": model.count_params() if model.built else None},
        "optimizer": optimizer.get_config() if hasattr(optimizer, "get_config") else {},
    }
