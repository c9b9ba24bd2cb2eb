"""Hugging Face's Trainer, and TRL's: ``Trainer(…, callbacks=[PhasewattCallback()])``."""

from __future__ import annotations

from typing import Any

from .frameworks import imported
from .guard import guarded
from .training_run import TrainingRun

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
        self._training = TrainingRun(options)
        self._batches = 0  # of the step that goes on
        self._tokens = 0  # seen so far, of all ranks

    @guarded
    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        model: Any = None,
        optimizer: Any = None,
        **_others: Any,
    ) -> None:
        self._batches, self._tokens = 0, state.num_input_tokens_seen
        config = {"trainer": args.to_dict()}
        if hasattr(getattr(model, "config", None), "to_dict"):
            config["model"] = model.config.to_dict()
        self._training.begin(state, model, optimizer, config=config)

    @guarded
    def on_substep_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        self._batches += 1

    @guarded
    def on_step_end(
        self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_others: Any
    ) -> None:
        batches, self._batches = self._batches + 1, 0
        if self._training.run is None:
            return
        of_rank: dict[str, int] = {}
        of_all: dict[str, float] = {}
        samples = _samples(batches, args, state, train_dataloader)
        if samples is not None:
            of_rank["samples"] = samples
            of_all["sample"] = samples * args.world_size
            if args.include_num_input_tokens_seen not in (False, "no"):
                tokens = state.num_input_tokens_seen - self._tokens
                of_rank["tokens"] = _part(tokens, args.process_index, args.world_size)
                of_all["token"] = tokens
        self._tokens = state.num_input_tokens_seen
        self._training.count(of_rank, of_all)

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


def _samples(batches: int, args: Any, state: Any, loader: Any) -> int | None:
    """What this rank trained in a step of so many batches; None if the loader does not tell.

    The last batch of an epoch may be smaller, where ranks do not fill it up with further samples.
    """
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None or getattr(sampler, "split_batches", False):
        return None
    size: int = getattr(state, "train_batch_size", None) or args.train_batch_size
    if getattr(sampler, "batch_size", None) != size:
        return None
    try:
        of_epoch, rows = len(loader), len(loader.dataset)
    except TypeError:  # nobody knows how long an epoch is
        return None
    missing = max(0, of_epoch * size - rows) if args.world_size == 1 else 0
    is_last = of_epoch > 0 and round(state.epoch * of_epoch) % of_epoch == 0
    return batches * size - (missing if is_last else 0)


def _part(number: int, rank: int, ranks: int) -> int:
    """A rank's part of what is known of all: as equal as whole numbers can be."""
    return number // ranks + (rank < number % ranks)


transformers.integrations.INTEGRATION_TO_CALLBACK["phasewatt"] = PhasewattCallback
