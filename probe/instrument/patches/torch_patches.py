"""What is patched in torch, and the wrappers that dynamo may meet. Needs torch.

Each of these asks first whether torch is tracing: that folds to a constant, so a compiled
function sees the original and no graph breaks. (Torch also traces without dynamo; optimizers'
hooks are not called then, and are spared the longer question.) ``session.machine`` is None once
no machine is attached; then a wrapper only calls the original.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch.compiler import is_compiling, is_dynamo_compiling

from .dynamo import put
from .module_call import wrapper_code
from .patching import Session, Wrap
from .wrappers import around_backward, around_data, around_ddp, on_optimizer

Call = Callable[..., Any]

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "scatter",
    "scatter_object_list",
    "barrier",
    "monitored_barrier",
    "send",
    "recv",
)


def _timed(signal: str) -> Wrap:
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


_recomputing = _timed("recompute")
_communicating = _timed("communication")


def _checkpoint_frame(original: Call, session: Session) -> Call:
    @functools.wraps(original)
    def __init__(self: Any, recompute_fn: Call, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if not is_compiling() and session.machine is not None:
            recompute_fn = _recomputing(recompute_fn, session)
        original(self, recompute_fn, *args, **kwargs)

    return __init__


def _collective(original: Call, session: Session) -> Call:
    parameters = list(inspect.signature(original).parameters)
    place = parameters.index("async_op") if "async_op" in parameters else len(parameters) + 64
    waiting = _communicating(original, session)

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("async_op") or (len(args) > place and args[place]):
            return original(*args, **kwargs)  # returns at once: nothing is exposed here
        return waiting(*args, **kwargs)

    return collective


def _framework_step(optimizer_of: Call, closes: bool | None = None) -> Wrap:
    """Make wrappers of a framework's step, inside which an optimizer may or may not step.

    Args:
        optimizer_of: gives what steps, called with the arguments of the step.
        closes: whether a step of the training ends; None: if ``global_steps`` has changed.
    """

    def wrap(original: Call, session: Session) -> Call:
        @functools.wraps(original)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or session.machine is None:
                return original(self, *args, **kwargs)
            machine, token, before = session.machine, None, getattr(self, "global_steps", 0)
            optimizer = optimizer_of(self, *args, **kwargs)
            try:
                token = machine.wrapped_begin(optimizer)
                return original(self, *args, **kwargs)
            finally:
                if token:
                    stepped = getattr(self, "global_steps", 0) != before
                    machine.wrapped_end(token, optimizer, stepped if closes is None else closes)

        return step

    return wrap


def _optimizer_argument(_scaler: Any, optimizer: Any, *_args: Any, **_kwargs: Any) -> Any:
    return optimizer


def _on_optimizer(session: Session, module: ModuleType) -> None:
    for register, hook in zip(
        (module.register_optimizer_step_pre_hook, module.register_optimizer_step_post_hook),
        on_optimizer(session),
        strict=True,
    ):
        session.undo.append(put(functools.partial(_hooked, register), hook, _unless_traced(hook)))


def _hooked(register: Call, hook: Call) -> Callable[[], bool]:
    handle = register(hook)

    def undo() -> bool:
        handle.remove()
        return True

    return undo


def _unless_traced(hook: Call) -> Call:
    def called(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_dynamo_compiling():
            hook(optimizer, args, kwargs)

    return called


def _on_distributed(session: Session, module: ModuleType) -> None:
    if not module.is_available():
        return
    for name in COLLECTIVES:
        if hasattr(module, name):
            session.patch(module, name, _collective)
    session.patch(module.Work, "wait", _communicating)  # FSDP, pipelines, whatever was begun before


def _on_checkpoint(session: Session, module: ModuleType) -> None:
    session.patch(module.CheckpointFunction, "backward", _recomputing)
    session.patch(module._CheckpointFrame, "__init__", _checkpoint_frame)


def _on_scaler(session: Session, module: ModuleType) -> None:
    session.patch(module.GradScaler, "step", _framework_step(_optimizer_argument, closes=True))
    session.patch(module.GradScaler, "unscale_", _framework_step(_optimizer_argument, closes=False))


@functools.cache  # rules stay, and each one compiles all of them again
def _skip_ours(rules: ModuleType) -> None:
    # Where dynamo runs a frame after a graph break it looks at every frame below it:
    # ours hold nothing to compile, and tracing them warns the user.
    package = __package__.rpartition(".")[0]
    for name in _NOT_TRACED:
        rules.add(f"{package}.{name}")


_NOT_TRACED = (  # all that runs in a training but this module and ``module_call``
    "engine",
    "ddp_timers",
    "logged_values",
    "module_kinds.state_machine",
    "patches.patching",
    "patches.registry",
    "patches.wrappers",
    "root_module.living_modules",
    "root_module.finder",
    "state_machine",
    "thread_rings",
)

INSTALLERS: dict[str, Callable[[Session, ModuleType], None]] = {
    "torch.autograd": lambda s, m: s.patch(m, "_engine_run_backward", around_backward),
    "torch.utils.data.dataloader": lambda s, m: s.patch(
        m._BaseDataLoaderIter, "__next__", around_data
    ),
    "torch.optim.optimizer": _on_optimizer,
    "torch.amp.grad_scaler": _on_scaler,
    "torch.utils.checkpoint": _on_checkpoint,
    "torch.distributed": _on_distributed,
    "torch.distributed._functional_collectives": lambda s, m: s.patch(
        m, "wait_tensor", _communicating
    ),
    "torch.nn.parallel.distributed": lambda s, m: s.patch(
        m.DistributedDataParallel, "_pre_forward", around_ddp
    ),
    "torch._dynamo.trace_rules": lambda _, m: _skip_ours(m),
    "torch._dynamo.eval_frame": lambda _, m: m.skip_code(wrapper_code()),
    "deepspeed.runtime.engine": lambda s, m: s.patch(
        m.DeepSpeedEngine, "step", _framework_step(lambda engine, *_args, **_kwargs: engine)
    ),
}
