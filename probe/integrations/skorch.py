"""skorch: ``NeuralNetClassifier(…, callbacks=[PhasewattCallback()])``."""

from __future__ import annotations

import time
from typing import Any

from .frameworks import imported
from .guard import guarded
from .training_run import Trained, TrainingRun

callbacks = imported("skorch", "1.0", "skorch.callbacks")


_Callback: Any = callbacks.Callback


class PhasewattCallback(_Callback):  # type: ignore[misc]
    """Records each ``fit()`` as a run, or as part of the run that is active.

    The net's history gets ``phasewatt/energy_j``, ``phasewatt/watts``, ``phasewatt/j_per_sample``
    and ``phasewatt/share/<phase>`` every epoch, where a meter measures. The run gets the net's
    parameters as its config.

    Args:
        options: those of :class:`probe.watch`, by name: ``PhasewattCallback(name="unet")``.

    Raises:
        UsageError: an option cannot be used.
    """

    def __init__(self, **options: Any):
        self._options = options
        self.__dict__.update(options)  # scikit-learn clones an estimator by its parameters
        self._training = TrainingRun(options, trained=self._trained)
        self._samples = 0  # since they were last logged

    @guarded
    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **_others: Any) -> None:  # noqa: N803
        self._training.begin(net, net.module_, config=_config(net))

    @guarded
    def on_batch_end(
        self, net: Any, batch: Any = None, training: bool = False, **_others: Any
    ) -> None:
        if training:
            samples = int(net.history[-1]["batches"][-1]["train_batch_size"])
            self._samples += samples
            if time.monotonic_ns() >= self._training.due_ns:
                self._training.log_trained()

    @guarded
    def on_epoch_end(self, net: Any, **_others: Any) -> None:
        for key, value in self._training.numbers().items():
            net.history.record(key, value)

    @guarded
    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **_others: Any) -> None:  # noqa: N803
        self._training.end()

    def _trained(self) -> Trained | None:
        samples, self._samples = self._samples, 0
        return Trained(samples, samples_of_all=samples) if samples else None

    def _get_param_names(self) -> list[str]:
        return list(self._options)

    def __getstate__(self) -> dict[str, Any]:
        """A net is copied and stored with its callbacks, but a training goes on in one place."""
        return self._options

    def __setstate__(self, options: dict[str, Any]) -> None:
        PhasewattCallback.__init__(self, **options)


def _config(net: Any) -> dict[str, Any]:
    """The parameters of a net, those that are numbers or texts or the names of classes."""
    settings: dict[str, Any] = {}
    for name, value in net.get_params(deep=False).items():
        if isinstance(value, type):
            settings[name] = value.__name__
        elif value is None or isinstance(value, (bool, int, float, str)):
            settings[name] = value
    return {"trainer": settings}
