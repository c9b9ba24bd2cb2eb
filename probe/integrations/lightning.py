"""Lightning (``lightning.pytorch``, ``pytorch_lightning``): ``callbacks=[PhasewattCallback()]``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..session.process_end import reason_of
from .frameworks import imported
from .guard import guarded
from .training_run import TrainingRun


def _lightning() -> Any:
    """The package that the script uses: the one it has imported, else the one that is there."""
    alone = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
    alone = alone or importlib.util.find_spec("lightning") is None
    if alone and importlib.util.find_spec("pytorch_lightning") is not None:
        return imported("pytorch-lightning", "2.2")
    return imported("lightning", "2.2", "lightning.pytorch")


_Callback: Any = _lightning().Callback


class PhasewattCallback(_Callback):  # type: ignore[misc]
    """Records each ``fit()`` as a run, or as part of the run that is active.

    The trainer's loggers get ``phasewatt/energy_j``, ``phasewatt/watts``, ``phasewatt/j_per_token``
    or ``phasewatt/j_per_sample`` and ``phasewatt/share/<phase>`` every ``log_every_n_steps`` steps,
    where a meter measures. The run gets the trainer's and the module's settings as its config.
    Tokens are known where a batch is a mapping with ``input_ids``.

    Args:
        options: those of :class:`probe.watch`, by name: ``PhasewattCallback(name="unet")``.

    Raises:
        UsageError: an option cannot be used.
    """

    def __init__(self, **options: Any):
        super().__init__()
        self._training = TrainingRun(options)
        self._logged_at = 0  # global step
        self._ranks = 1
        self._size: int | None = None  # of a batch, as the loader has it
        self._batches: float = 0  # of an epoch

    @guarded
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._logged_at, self._ranks = trainer.global_step, trainer.world_size
        self._training.begin(trainer, pl_module, config=_config(trainer, pl_module))

    @guarded
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        # Properties of the trainer take microseconds, so few are asked for in a step.
        size = getattr(trainer.train_dataloader, "batch_size", None)
        self._size = size if type(size) is int else None
        self._batches = trainer.num_training_batches

    @guarded
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._training.run is None:
            return
        samples = self._samples(batch, batch_idx)
        if samples is not None:
            tokens = _tokens(batch)
            of_rank = {"samples": samples} | ({} if tokens is None else {"tokens": tokens})
            if tokens is not None and self._ranks == 1:  # another rank's texts may be longer
                self._training.count(of_rank, "token", tokens)
            else:
                self._training.count(of_rank, "sample", samples * self._ranks)
        steps = trainer.global_step
        if steps - self._logged_at >= trainer.log_every_n_steps and trainer.is_global_zero:
            self._logged_at = steps
            if trainer.loggers and (numbers := self._training.numbers()):
                for logger in trainer.loggers:
                    logger.log_metrics(numbers, step=steps - 1)  # as Lightning numbers it

    @guarded
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._training.end()

    @guarded
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        code = 130 if isinstance(exception, KeyboardInterrupt) else 1
        self._training.end(failed=True, exit_code=code, error=reason_of(exception))

    @guarded
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._training.end()  # of a fit that its tuner ended; else it is over

    def _samples(self, batch: Any, batch_idx: int) -> int | None:
        """Samples of a batch; None where the loader's batch size does not agree with its shape."""
        size, rows = self._size, _rows(batch)
        if size is None or rows is None:
            return None
        return rows if rows == size or (rows < size and batch_idx + 1 == self._batches) else None


def _config(trainer: Any, module: Any) -> dict[str, Any]:
    """The settings of a training, those that Lightning shows."""
    names = (
        *("max_epochs", "max_steps", "precision", "accumulate_grad_batches", "gradient_clip_val"),
        *("num_nodes", "world_size", "log_every_n_steps", "check_val_every_n_epoch"),
    )
    settings = {name: getattr(trainer, name, None) for name in names}
    settings["strategy"] = type(trainer.strategy).__name__
    return {"trainer": settings, "model": dict(getattr(module, "hparams", None) or {})}


def _rows(batch: Any) -> int | None:
    """The first dimension of the first tensor in a batch."""
    while isinstance(batch, (Mapping, list, tuple)) and len(batch):
        batch = next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0]
    shape: Sequence[int] = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else None


def _tokens(batch: Any) -> int | None:
    """Tokens of a batch that says so, padding among them."""
    try:
        return int(batch["input_ids"].numel())
    except Exception:  # a batch of another kind
        return None
