"""Lightning (``lightning.pytorch``, ``pytorch_lightning``): ``callbacks=[PhasewattCallback()]``."""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..session.process_end import reason_of
from .frameworks import imported
from .guard import guarded
from .training_run import Trained, TrainingRun


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
        self._training = TrainingRun(options, trained=self._trained)
        self._ranks = 1
        self._logged_at = self._looked_at = 0  # global steps
        self._batches_unseen, self._look_after = 0, 1  # batches between two looks at them
        self._size = 0  # of a batch, as the loader has it; 0 if it is not known
        self._last = -1  # number of an epoch's last batch; -1 if it is not known
        self._samples = self._tokens = 0  # that are not logged yet

    @guarded
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._ranks = trainer.world_size
        self._logged_at = self._looked_at = trainer.global_step
        self._batches_unseen, self._look_after = 0, 1
        self._samples = self._tokens = 0
        self._training.begin(trainer, pl_module, config=_config(trainer, pl_module))

    @guarded
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        # Properties of the trainer take microseconds, so few are asked for in a step.
        size = getattr(trainer.train_dataloader, "batch_size", None)
        self._size = size if type(size) is int else 0
        last = trainer.num_training_batches - 1
        self._last = last if math.isfinite(last) else -1

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # In every step: as little as can be, and no decorator, which packs the arguments again.
        self._samples += self._size
        if type(batch) is not list and type(batch) is not tuple:
            self._tokens += _tokens(batch)
        self._batches_unseen += 1
        if (
            self._batches_unseen >= self._look_after
            or batch_idx >= self._last
            or time.monotonic_ns() >= self._training.due_ns
        ):
            self._look(trainer, batch, batch_idx)

    @guarded
    def _look(self, trainer: Any, batch: Any, batch_idx: int) -> None:
        """Log what is due, and find out when to look again."""
        self._correct_samples(batch, batch_idx)
        if time.monotonic_ns() >= self._training.due_ns:
            self._training.log_trained()
        if self._batches_unseen < self._look_after:
            return
        steps, every = trainer.global_step, trainer.log_every_n_steps
        # A batch may be several steps, of several optimizers.
        steps_per_batch = max(1, math.ceil((steps - self._looked_at) / self._batches_unseen))
        self._looked_at, self._batches_unseen = steps, 0
        if steps - self._logged_at >= every:
            self._logged_at = steps
            if trainer.is_global_zero and trainer.loggers and (numbers := self._training.numbers()):
                for logger in trainer.loggers:
                    logger.log_metrics(numbers, step=steps - 1)  # as Lightning numbers it
        self._look_after = max(1, (every - (steps - self._logged_at)) // steps_per_batch)

    def _correct_samples(self, batch: Any, batch_idx: int) -> None:
        """Batches count as the loader's size, one that may be the last as it is.

        Nothing is counted until the epoch's end where the shape of a batch is another one.
        """
        rows = _rows(batch)
        if rows == self._size:
            return
        self._samples -= self._size
        if rows is not None and rows < self._size and batch_idx >= self._last:
            self._samples += rows
        else:
            self._size = 0

    def _trained(self) -> Trained | None:
        samples, tokens = self._samples, self._tokens
        self._samples = self._tokens = 0
        if not samples:
            return None
        if tokens and self._ranks == 1:  # another rank's texts may be longer
            return Trained(samples, tokens, tokens_of_all=tokens)
        return Trained(samples, tokens, samples_of_all=samples * self._ranks)

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
    while (kind := type(batch)) is tuple or kind is list or isinstance(batch, Mapping):
        if not batch:
            return None
        batch = next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0]
    shape: Sequence[int] = getattr(batch, "shape", ())
    return int(shape[0]) if shape else None


def _tokens(batch: Any) -> int:
    """Tokens of a batch that says so, padding among them; 0 if they are not known."""
    try:
        return int(batch["input_ids"].numel())
    except Exception:  # a batch of another kind
        return 0
