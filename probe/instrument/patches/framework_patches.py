"""What is patched where frameworks step, save and act, and what saves in torch itself.

A name that another version of a framework does not have is left out: that signal is off then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.compiler import is_compiling

from ...ring.layout import Code
from .patching import Session, Wrap

INFERENCE, OTHER = int(Code.INFERENCE), int(Code.OTHER)
Call = Callable[..., Any]


def timed(signal: str, *, begun_by: str = "") -> Wrap:
    """Make wrappers that call ``{signal}_begin``, or ``begun_by``, and ``{signal}_end``."""
    begin, end = begun_by or f"{signal}_begin", f"{signal}_end"

    def wrap(original: Call, session: Session) -> Call:
        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or session.machine is None:
                return original(*args, **kwargs)
            machine, token = session.machine, None
            try:
                token = getattr(machine, begin)()
                return original(*args, **kwargs)
            finally:
                if token:
                    getattr(machine, end)(token)

        return timed

    return wrap


def framework_step(
    optimizer_of: Call, *, part: bool = False, updates: Callable[[Any], bool] | None = None
) -> Wrap:
    """Make wrappers of a framework's step, inside which an optimizer may or may not step.

    A step of the training ends if ``global_steps`` has changed, or without that if an optimizer
    has stepped.

    Args:
        optimizer_of: gives what steps, called with the arguments of the step.
        part: it never is a whole step.
        updates: whether a call on this object, which is over, was a whole step; it raises nothing.
    """

    def wrap(original: Call, session: Session) -> Call:
        @functools.wraps(original)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or session.machine is None:
                return original(self, *args, **kwargs)
            machine, token, before = session.machine, None, getattr(self, "global_steps", None)
            optimizer = optimizer_of(self, *args, **kwargs)
            try:
                token = machine.wrapped_begin(optimizer, part)
                return original(self, *args, **kwargs)
            finally:
                if token:
                    closes: bool | None = None
                    if part:
                        closes = False
                    elif updates is not None:
                        closes = updates(self)
                    elif before is not None:
                        closes = getattr(self, "global_steps", None) != before
                    machine.wrapped_end(token, optimizer, closes)

        return step

    return wrap


_saving = timed("checkpoint")
_waiting = timed("checkpoint", begun_by="checkpoint_wait_begin")


def _on_serialization(session: Session, module: ModuleType) -> None:
    for owner, name in (
        (torch, "save"),
        (module, "save"),
        (module, "_save"),  # where `save` was imported by name
        (module, "_legacy_save"),
    ):
        session.patch(owner, name, _saving)


def _saves(*names: str) -> Callable[[Session, ModuleType], None]:
    """Make an installer for functions, or methods as ``Class.method``, that save a checkpoint."""

    def install(session: Session, module: ModuleType) -> None:
        for name in names:
            owner: Any = module
            *path, last = name.split(".")
            for part in path:
                owner = getattr(owner, part)
            session.patch(owner, last, _saving)

    return install


def _futures(save: Wrap) -> Wrap:
    """Make wrappers of what returns while another thread saves: waits for it are of that save."""

    def wrap(original: Call, session: Session) -> Call:
        inner = save(original, session)

        @functools.wraps(original)
        def begin_saving(*args: Any, **kwargs: Any) -> Any:
            begun = inner(*args, **kwargs)
            if not is_compiling() and session.machine is not None:
                for future in (
                    begun,
                    getattr(begun, "staging_completion", None),
                    getattr(begun, "upload_completion", None),
                ):
                    # A name of the future's own: other futures stay as they are.
                    if isinstance(future, Future) and "result" not in vars(future):
                        future.result = _waiting(future.result, session)  # type: ignore[method-assign]
            return begun

        return begin_saving

    return wrap


def _on_distributed_checkpoint(session: Session, module: Any) -> None:
    saver = module.state_dict_saver
    for owner in (saver, module):
        session.patch(owner, "save", _saving)
        session.patch(owner, "save_state_dict", _saving)
        session.patch(owner, "async_save", _futures(_saving))
    # What these call, since they may have been imported by name.
    session.patch(saver, "_save_state_dict", _saving)
    session.patch(module.staging.DefaultStager, "stage", _saving)
    session.patch(module.staging.BlockingAsyncStager, "stage", _saving)
    for executor in ("_ThreadBasedAsyncCheckpointExecutor", "_ProcessBasedAsyncCheckpointExecutor"):
        session.patch(getattr(saver, executor), "execute_save", _futures(_waiting))


def _means(phase: int) -> Wrap:
    """Make wrappers inside which forwards without gradients are this phase; 0: as anywhere."""

    def wrap(original: Call, session: Session) -> Call:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            machine = session.machine
            finder = None if machine is None else machine.finder
            if finder is None:
                return original(*args, **kwargs)
            before, finder.evaluations.meaning = finder.evaluations.meaning, phase
            try:
                return original(*args, **kwargs)
            finally:
                finder.evaluations.meaning = before

        return call

    return wrap


def _on_rollouts(owner: str) -> Callable[[Session, ModuleType], None]:
    def install(session: Session, module: ModuleType) -> None:
        session.patch(getattr(module, owner), "collect_rollouts", _means(INFERENCE))

    return install


def _itself(optimizer: Any, *_args: Any, **_kwargs: Any) -> Any:
    return optimizer


def _on_deepspeed(session: Session, module: ModuleType) -> None:
    engine = module.DeepSpeedEngine
    session.patch(engine, "step", framework_step(_itself))
    session.patch(engine, "save_checkpoint", _saving)


_keras_calls: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # by optimizer


def _keras_updates(optimizer: Any) -> bool:
    """Whether a call of a Keras optimizer has updated the weights, where it accumulates."""
    try:
        batches = optimizer.gradient_accumulation_steps
        if not batches:
            return True
        # Read once: it is a tensor, which may be on a GPU.
        calls = _keras_calls.get(optimizer)
        calls = int(optimizer._iterations.value) if calls is None else calls + 1
        _keras_calls[optimizer] = calls
        return calls % int(batches) == 0
    except Exception:  # of a version that accumulates in another way
        return True


def _on_keras_optimizer(session: Session, module: Any) -> None:
    # Other backends call it while they compile, not in every step.
    if module.backend.backend() == "torch":
        update = framework_step(_itself, updates=_keras_updates)
        session.patch(module.BaseOptimizer, "apply", update)


FRAMEWORKS: dict[str, Callable[[Session, ModuleType], None]] = {
    "torch.serialization": _on_serialization,
    "torch.distributed.checkpoint": _on_distributed_checkpoint,
    # The last two are below the others, which may have been imported by name.
    "safetensors.torch": _saves("save_file", "save_model", "save", "serialize_file", "serialize"),
    "transformers.modeling_utils": _saves("PreTrainedModel.save_pretrained"),
    "transformers.trainer": _saves("Trainer._save_checkpoint", "Trainer.save_model"),
    "accelerate.accelerator": _saves("Accelerator.save_state", "Accelerator.save_model"),
    "lightning.pytorch.trainer.trainer": _saves("Trainer.save_checkpoint"),
    "pytorch_lightning.trainer.trainer": _saves("Trainer.save_checkpoint"),
    "lightning.fabric.fabric": _saves("Fabric.save"),
    "lightning_fabric.fabric": _saves("Fabric.save"),
    "keras.src.optimizers.base_optimizer": _on_keras_optimizer,
    "keras.src.trainers.trainer": lambda s, m: s.patch(
        m.Trainer,
        "_symbolic_build",
        _means(OTHER),  # a call for the shapes
    ),
    "keras.src.saving.saving_lib": _saves("save_model", "save_weights_only"),
    "keras.src.legacy.saving.legacy_h5_format": _saves("save_model_to_hdf5"),
    "sentence_transformers.base.model": _saves("BaseModel.save", "BaseModel.save_pretrained"),
    "skorch.net": _saves("NeuralNet.save_params"),
    "stable_baselines3.common.base_class": _saves("BaseAlgorithm.save"),
    "stable_baselines3.common.on_policy_algorithm": _on_rollouts("OnPolicyAlgorithm"),
    "stable_baselines3.common.off_policy_algorithm": _on_rollouts("OffPolicyAlgorithm"),
    "stable_baselines3.common.evaluation": lambda s, m: s.patch(m, "evaluate_policy", _means(0)),
    "deepspeed.runtime.engine": _on_deepspeed,
}
