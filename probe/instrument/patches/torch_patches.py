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

from ...ring.layout import TransferCode
from .dynamo import put
from .framework_patches import FRAMEWORKS, framework_step, timed
from .module_call import wrapper_code
from .patching import Session, Wrap, replace
from .transfers import around_transfer, around_wait
from .wrappers import (
    around_backward,
    around_data,
    around_ddp,
    around_gradients,
    around_tensor_backward,
    on_optimizer,
)

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


_recomputing = timed("recompute")
_communicating = timed("communication")


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


def _functional_wait(original: Call, session: Session) -> Call:
    """Wrap ``wait_tensor``, which waits for what was begun before."""
    waiting = _communicating(original, session)

    @functools.wraps(original)
    def wait_tensor(*args: Any, **kwargs: Any) -> Any:
        if not is_compiling() and session.transfers is not None:
            session.transfers.beside_computing = True
        return waiting(*args, **kwargs)

    return wait_tensor


def _tells_finder(method: str) -> Wrap:
    """Make wrappers that call a method of the machine's finder with ``self``, after the call."""

    def wrap(original: Call, session: Session) -> Call:
        @functools.wraps(original)
        def call_and_tell(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if not is_compiling():
                _tell_finder(session, method, self)
            return result

        return call_and_tell

    return wrap


def _tell_finder(session: Session, method: str, argument: Any) -> None:
    machine = session.machine
    if machine is not None and machine.finder is not None:
        try:
            getattr(machine.finder, method)(argument)
        except Exception as error:
            machine.fail(error)


def _compiling(begins: bool) -> Wrap:
    """Make wrappers of what dynamo calls when it begins to compile, or has compiled."""

    def wrap(original: Call, session: Session) -> Call:
        open_tokens: list[Any] = session.compiling

        @functools.wraps(original)
        def run_callbacks(*args: Any, **kwargs: Any) -> Any:
            _tell_finder(session, "compiling", begins)
            machine = session.machine
            if machine is not None:
                if begins:
                    open_tokens.append(machine.compile_begin())
                elif open_tokens and (token := open_tokens.pop()):
                    machine.compile_end(token)
            return original(*args, **kwargs)

        return run_callbacks

    return wrap


def _on_dynamo_utils(session: Session, module: ModuleType) -> None:
    machine = session.machine
    if machine is not None and machine.finder is not None:
        machine.finder.discovery.on_dynamo(module)


def _on_callbacks(session: Session, module: ModuleType) -> None:
    handler = module.CompilationCallbackHandler
    session.patch(handler, "run_start_callbacks", _compiling(True))
    session.patch(handler, "run_end_callbacks", _compiling(False))


def _optimizer_argument(_scaler: Any, optimizer: Any, *_args: Any, **_kwargs: Any) -> Any:
    return optimizer


def _on_autograd(session: Session, module: ModuleType) -> None:
    session.patch(module, "_engine_run_backward", around_backward)
    # Dynamo knows `torch.autograd.grad` by its identity.
    original = module.grad
    compiled = around_gradients(original, session)
    session.undo.append(put(lambda by: replace(module, "grad", by), compiled, original))


def _on_optimizer(session: Session, module: ModuleType) -> None:
    session.patch(module.Optimizer, "__init__", _tells_finder("optimizer_made"))
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


def _on_loader(session: Session, module: ModuleType) -> None:
    session.patch(module._BaseDataLoaderIter, "__next__", around_data)
    session.patch(module._BaseDataLoaderIter, "__init__", _iterating)


def _iterating(original: Call, session: Session) -> Call:
    @functools.wraps(original)
    def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(*args, **kwargs)
        if session.machine is not None:
            session.machine.iteration_begin()
            if len(args) > 1:
                session.batches.begin(args[0], args[1])

    return __init__


def _on_distributed(session: Session, module: ModuleType) -> None:
    if not module.is_available():
        return
    for name in COLLECTIVES:
        if hasattr(module, name):
            session.patch(module, name, _collective)
    session.patch(module.Work, "wait", _communicating)  # FSDP, pipelines, whatever was begun before
    session.patch(module.Work, "wait", around_wait)
    session.patch(module.ProcessGroup, "send", around_transfer(TransferCode.SEND))
    session.patch(module.ProcessGroup, "recv", around_transfer(TransferCode.RECEIVE))


def _on_checkpoint(session: Session, module: ModuleType) -> None:
    session.patch(module.CheckpointFunction, "backward", _recomputing)
    session.patch(module._CheckpointFrame, "__init__", _checkpoint_frame)


def _on_scaler(session: Session, module: ModuleType) -> None:
    session.patch(module.GradScaler, "step", framework_step(_optimizer_argument))
    session.patch(module.GradScaler, "unscale_", framework_step(_optimizer_argument, part=True))


@functools.cache  # rules stay, and each one compiles all of them again
def _skip_ours(rules: ModuleType) -> None:
    # Where dynamo runs a frame after a graph break it looks at every frame below it:
    # ours hold nothing to compile, and tracing them warns the user.
    package = __package__.rpartition(".")[0]
    for name in _NOT_TRACED:
        rules.add(f"{package}.{name}")


_NOT_TRACED = (  # all that runs in a training but the patches of names that dynamo inlines
    "engine",
    "ddp_timers",
    "logged_values",
    "module_kinds.state_machine",
    "patches.patching",
    "patches.registry",
    "patches.wrappers",
    "root_module",
    "state_machine",
    "thread_rings",
    "transfers",
)

INSTALLERS: dict[str, Callable[[Session, ModuleType], None]] = FRAMEWORKS | {
    "torch._tensor": lambda s, m: s.patch(m.Tensor, "backward", around_tensor_backward),
    "torch.autograd": _on_autograd,
    "torch.utils.data.dataloader": _on_loader,
    "torch.optim.optimizer": _on_optimizer,
    "torch.amp.grad_scaler": _on_scaler,
    "torch.utils.checkpoint": _on_checkpoint,
    "torch.distributed": _on_distributed,
    "torch.distributed._functional_collectives": lambda s, m: s.patch(
        m, "wait_tensor", _functional_wait
    ),
    "torch.nn.parallel.distributed": lambda s, m: s.patch(
        m.DistributedDataParallel, "_pre_forward", around_ddp
    ),
    "torch.nn.modules.module": lambda s, m: s.patch(
        m.Module, "eval", _tells_finder("module_evaluates")
    ),
    "torch._dynamo.callback": _on_callbacks,
    "torch._dynamo.utils": _on_dynamo_utils,
    "torch._dynamo.trace_rules": lambda _, m: _skip_ours(m),
    "torch._dynamo.eval_frame": lambda _, m: m.skip_code(wrapper_code()),
}
