"""The wrappers around torch that tell the machine what happens. Needs torch.

Each that dynamo may meet asks first whether it is tracing: that folds to a constant, so a compiled
function sees the original and no graph breaks. (Torch also traces without dynamo; optimizers'
hooks are not called then, and are spared the longer question.) ``session.target`` is None once
nobody listens; then a wrapper only calls the original.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch.compiler import is_compiling, is_dynamo_compiling

from .dynamo import put
from .module_call import code
from .registry import Session
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


def _recomputing(original: Call, session: Session) -> Call:
    @functools.wraps(original)
    def recompute(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or session.target is None:
            return original(*args, **kwargs)
        target, token = session.target, None
        try:
            token = target.recompute_begin()
            return original(*args, **kwargs)
        finally:
            if token:
                target.recompute_end(token)

    return recompute


def _checkpoint_frame(original: Call, session: Session) -> Call:
    @functools.wraps(original)
    def __init__(self: Any, recompute_fn: Call, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if not is_compiling() and session.target is not None:
            recompute_fn = _recomputing(recompute_fn, session)
        original(self, recompute_fn, *args, **kwargs)

    return __init__


def _waiting(original: Call, session: Session) -> Call:
    @functools.wraps(original)
    def wait(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or session.target is None:
            return original(*args, **kwargs)
        target, token = session.target, None
        try:
            token = target.communication_begin()
            return original(*args, **kwargs)
        finally:
            if token:
                target.communication_end(token)

    return wait


def _collective(original: Call, session: Session) -> Call:
    parameters = list(inspect.signature(original).parameters)
    place = parameters.index("async_op") if "async_op" in parameters else len(parameters) + 64
    waiting = _waiting(original, session)

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("async_op") or (len(args) > place and args[place]):
            return original(*args, **kwargs)  # returns at once: nothing is exposed here
        return waiting(*args, **kwargs)

    return collective


def _scaler(closes: bool) -> Callable[[Call, Session], Call]:
    def wrap(original: Call, session: Session) -> Call:
        @functools.wraps(original)
        def scaled(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or session.target is None:
                return original(self, optimizer, *args, **kwargs)
            target, token = session.target, None
            try:
                token = target.wrapped_begin(optimizer)
                return original(self, optimizer, *args, **kwargs)
            finally:
                if token:
                    target.wrapped_end(token, optimizer, closes)

        return scaled

    return wrap


def _deepspeed_step(original: Call, session: Session) -> Call:
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or session.target is None:
            return original(self, *args, **kwargs)
        target, token, before = session.target, None, getattr(self, "global_steps", 0)
        try:
            token = target.wrapped_begin(self)
            return original(self, *args, **kwargs)
        finally:
            if token:
                target.wrapped_end(token, self, getattr(self, "global_steps", 0) != before)

    return step


def _on_optimizer(session: Session, module: ModuleType) -> None:
    for register, hook in zip(
        (module.register_optimizer_step_pre_hook, module.register_optimizer_step_post_hook),
        on_optimizer(session),
        strict=True,
    ):
        session.undo.append(put(functools.partial(_hooked, register), hook, _seen_through(hook)))


def _hooked(register: Call, hook: Call) -> Callable[[], bool]:
    handle = register(hook)

    def undo() -> bool:
        handle.remove()
        return True

    return undo


def _seen_through(hook: Call) -> Call:
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
    session.patch(module.Work, "wait", _waiting)  # FSDP, pipelines, whatever was begun before


def _on_checkpoint(session: Session, module: ModuleType) -> None:
    frame = getattr(module, "_CheckpointFrame", None)
    if frame is None:
        session.missing.append("torch.utils.checkpoint._CheckpointFrame")
    else:
        session.patch(frame, "__init__", _checkpoint_frame)
    session.patch(module.CheckpointFunction, "backward", _recomputing)


def _on_scaler(session: Session, module: ModuleType) -> None:
    session.patch(module.GradScaler, "step", _scaler(True))
    session.patch(module.GradScaler, "unscale_", _scaler(False))


@functools.cache  # rules stay, and each one compiles all of them again
def _skip_ours(rules: ModuleType) -> None:
    # Where dynamo runs a frame after a graph break it looks at every frame below it:
    # ours hold nothing to compile, and tracing them warns the user.
    package = __package__.rpartition(".")[0]
    for name in _NOT_TRACED:
        rules.add(f"{package}.{name}")


_NOT_TRACED = (  # all that runs in a training but this module and ``module_call``
    "edge_writer",
    "engine",
    "ddp_timers",
    "logged_values",
    "module_kinds.state_machine",
    "patches.registry",
    "patches.wrappers",
    "root_module.candidates",
    "root_module.finder",
    "signal_handler",
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
    "torch.distributed._functional_collectives": lambda s, m: s.patch(m, "wait_tensor", _waiting),
    "torch.nn.parallel.distributed": lambda s, m: s.patch(
        m.DistributedDataParallel, "_pre_forward", around_ddp
    ),
    "torch._dynamo.trace_rules": lambda _, m: _skip_ours(m),
    "torch._dynamo.eval_frame": lambda _, m: m.skip_code(code()),
    "deepspeed.runtime.engine": lambda s, m: s.patch(m.DeepSpeedEngine, "step", _deepspeed_step),
}
