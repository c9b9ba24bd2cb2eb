"""What is patched where frameworks step, save and act, and what saves in torch itself.

A name that another version of a framework does not have is left out: that signal is off then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.compiler import is_compiling

from .patching import Session, Wrap

Call = Callable[..., Any]


def timed(signal: str) -> Wrap:
    """Make wrappers that call ``{signal}_begin`` and ``{signal}_end`` of the machine."""
    begin, end = f"{signal}_begin", f"{signal}_end"

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


def framework_step(optimizer_of: Call, *, part: bool = False, whole: bool = False) -> Wrap:
    """Make wrappers of a framework's step, inside which an optimizer may or may not step.

    A step of the training ends if ``global_steps`` has changed, or without that if an optimizer
    has stepped.

    Args:
        optimizer_of: gives what steps, called with the arguments of the step.
        part: it never is a whole step.
        whole: it always is, whatever steps inside.
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
                    if part or whole:
                        closes = whole
                    elif before is not None:
                        closes = getattr(self, "global_steps", None) != before
                    machine.wrapped_end(token, optimizer, closes)

        return step

    return wrap


_saving = timed("checkpoint")


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


def _acting(acts: bool) -> Wrap:
    """Make wrappers inside which forwards without gradients are inference, or are not."""

    def wrap(original: Call, session: Session) -> Call:
        @functools.wraps(original)
        def acting(*args: Any, **kwargs: Any) -> Any:
            machine = session.machine
            finder = None if machine is None else machine.finder
            if finder is None:
                return original(*args, **kwargs)
            before, finder.acts = finder.acts, acts
            try:
                return original(*args, **kwargs)
            finally:
                finder.acts = before

        return acting

    return wrap


def _on_rollouts(owner: str) -> Callable[[Session, ModuleType], None]:
    def install(session: Session, module: ModuleType) -> None:
        session.patch(getattr(module, owner), "collect_rollouts", _acting(True))

    return install


def _itself(optimizer: Any, *_args: Any, **_kwargs: Any) -> Any:
    return optimizer


def _on_deepspeed(session: Session, module: ModuleType) -> None:
    engine = module.DeepSpeedEngine
    session.patch(engine, "step", framework_step(_itself))
    session.patch(engine, "save_checkpoint", _saving)


FRAMEWORKS: dict[str, Callable[[Session, ModuleType], None]] = {
    "torch.serialization": _on_serialization,
    "torch.distributed.checkpoint": _saves("save", "async_save", "save_state_dict"),
    "torch.distributed.checkpoint.state_dict_saver": _saves("save", "async_save"),
    "safetensors.torch": _saves("save_file", "save_model"),
    "transformers.modeling_utils": _saves("PreTrainedModel.save_pretrained"),
    "transformers.trainer": _saves("Trainer._save_checkpoint", "Trainer.save_model"),
    "accelerate.accelerator": _saves("Accelerator.save_state", "Accelerator.save_model"),
    "lightning.pytorch.trainer.trainer": _saves("Trainer.save_checkpoint"),
    "pytorch_lightning.trainer.trainer": _saves("Trainer.save_checkpoint"),
    "keras.src.optimizers.base_optimizer": lambda s, m: s.patch(
        m.BaseOptimizer, "apply", framework_step(_itself, whole=True)
    ),
    "keras.src.saving.saving_lib": _saves("save_model", "save_weights_only"),
    "stable_baselines3.common.on_policy_algorithm": _on_rollouts("OnPolicyAlgorithm"),
    "stable_baselines3.common.off_policy_algorithm": _on_rollouts("OffPolicyAlgorithm"),
    "stable_baselines3.common.evaluation": lambda s, m: s.patch(
        m, "evaluate_policy", _acting(False)
    ),
    "deepspeed.runtime.engine": _on_deepspeed,
}
