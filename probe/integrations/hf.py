"""Hugging Face's Trainer, and TRL's: ``Trainer(…, callbacks=[PhasewattCallback()])``."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from .frameworks import imported
from .guard import guarded
from .training_run import Trained, TrainingRun

transformers = imported("transformers", "4.50")

_COUNTS = ("samples", "tokens")  # the callback counts them itself


_TrainerCallback: Any = transformers.TrainerCallback


class PhasewattCallback(_TrainerCallback):  # type: ignore[misc]
    """Records each ``train()`` as a run, or as part of the run that is active.

    The Trainer's logs of training get ``phasewatt/energy_j``, ``phasewatt/watts``,
    ``phasewatt/j_per_token`` or ``phasewatt/j_per_sample`` and ``phasewatt/share/<phase>`` where a
    meter measures. The run gets the Trainer's arguments as its config, the numbers that it logs,
    and samples and tokens. Tokens are known with ``include_num_input_tokens_seen``.

    Args:
        options: those of :class:`probe.watch`, by name: ``PhasewattCallback(name="bert")``.

    Raises:
        UsageError: an option cannot be used.
    """

    def __init__(self, **options: Any):
        self._training = TrainingRun(options, trained=self._trained)
        self._state: Any = None
        self._loader: _Loader | None = None
        self._rank, self._ranks = 0, 1
        self._counts_tokens = False
        self._substeps = 0  # of the step that goes on
        self._batches = 0  # of steps that are not logged yet
        self._epochs = 0  # that were over when samples were last logged
        self._tokens = 0  # of all ranks, that are logged

    @guarded
    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        model: Any = None,
        optimizer: Any = None,
        train_dataloader: Any = None,
        **_others: Any,
    ) -> None:
        # Properties of `args` take microseconds, so none is asked for in a step.
        self._rank, self._ranks = args.process_index, args.world_size
        self._counts_tokens = args.include_num_input_tokens_seen not in (False, "no")
        self._state, self._loader = state, _Loader.of(args, state, train_dataloader)
        self._substeps = self._batches = 0
        self._tokens = state.num_input_tokens_seen
        self._epochs = 0 if self._loader is None else self._loader.epochs(state.epoch or 0)
        config = {"trainer": args.to_dict()}
        if hasattr(getattr(model, "config", None), "to_dict"):
            config["model"] = model.config.to_dict()
        self._training.begin(state, model, optimizer, config=config)

    @guarded
    def on_substep_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        self._substeps += 1

    def on_step_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        # In every step: as little as can be, and no decorator, which packs the arguments again.
        self._batches += 1 + self._substeps
        self._substeps = 0
        if time.monotonic_ns() >= self._training.due_ns:
            self._log_trained()

    @guarded
    def _log_trained(self) -> None:
        self._training.log_trained()

    def _trained(self) -> Trained | None:
        batches, self._batches = self._batches, 0
        if self._loader is None or not batches:
            return None
        before, self._epochs = self._epochs, self._loader.epochs(self._state.epoch)
        samples = batches * self._loader.size - (self._epochs - before) * self._loader.missing
        if not self._counts_tokens:
            return Trained(samples, samples_of_all=samples * self._ranks)
        seen = self._state.num_input_tokens_seen
        tokens, self._tokens = seen - self._tokens, seen
        return Trained(samples, _part(tokens, self._rank, self._ranks), tokens_of_all=tokens)

    @guarded
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_others: Any) -> None:
        run = self._training.run
        if run is None or not logs:
            return
        run.log(
            {
                name: value
                for name, value in logs.items()
                if isinstance(value, (int, float)) and name not in _COUNTS
            }
        )
        # Evaluations keep their keys: a best metric and a search's objective are found among them.
        trains, ends = "loss" in logs, "train_runtime" in logs
        if not (trains or ends) or not state.is_world_process_zero:
            return
        numbers = self._training.numbers()
        if trains:  # what the last log has is also what train() returns
            logs.update(numbers)
        if state.log_history and state.log_history[-1].get("step") == state.global_step:
            state.log_history[-1].update(numbers)

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        self._training.end()


class _Loader(NamedTuple):
    """How many samples the batches of a rank have."""

    size: int
    of_epoch: int  # batches
    missing: int  # in the last batch of an epoch

    @classmethod
    def of(cls, args: Any, state: Any, loader: Any) -> _Loader | None:
        """None if the loader does not tell, or nobody knows how long an epoch is.

        The last batch of an epoch is smaller where one rank has no others to fill it up for.
        """
        sampler = getattr(loader, "batch_sampler", None)
        if sampler is None or getattr(sampler, "split_batches", False):
            return None
        size: int = getattr(state, "train_batch_size", None) or args.train_batch_size
        if getattr(sampler, "batch_size", None) != size:
            return None
        try:
            of_epoch, rows = len(loader), len(loader.dataset)
        except TypeError:
            return None
        return cls(size, of_epoch, max(0, of_epoch * size - rows) if args.world_size == 1 else 0)

    def epochs(self, epoch: float) -> int:
        """How many are over."""
        return round(epoch * self.of_epoch) // self.of_epoch


def _part(number: int, rank: int, ranks: int) -> int:
    """A rank's part of what is known of all: as equal as whole numbers can be."""
    return number // ranks + (rank < number % ranks)


transformers.integrations.INTEGRATION_TO_CALLBACK["phasewatt"] = PhasewattCallback
