"""Modules and optimizers in memory, to find a root module that was not passed to ``watch``."""

from __future__ import annotations

import gc
import hashlib
from typing import Any

from torch import nn

_ORDINARY_WRAPPERS = ("module", "_orig_mod")  # DDP, FSDP, DeepSpeed; torch.compile


def is_module(item: object) -> bool:
    """Whether it is a torch module, by type: on proxies isinstance may import whole packages."""
    return nn.Module in type(item).__mro__


def likely_roots(parameters: set[int]) -> list[nn.Module]:
    """Living modules that own most of the parameters (ids), best first.

    Outermost with the largest cover, then what lies inside it: a framework that calls
    ``training_step`` never calls the outermost module itself.
    """
    modules = [item for item in gc.get_objects() if is_module(item)]
    inside = {id(child) for module in modules for child in _children(module)}
    outermost = [module for module in modules if id(module) not in inside]
    best: list[tuple[int, nn.Module]] = []
    for module in outermost:
        cover = _cover(module, parameters)
        if cover or _is_deepspeed(module):
            best.append((cover + _is_deepspeed(module), module))
    best.sort(key=lambda pair: -pair[0])
    if not best:
        return []
    roots = [module for cover, module in best if cover == best[0][0]][:2]
    inner: nn.Module | None = roots[0]
    while inner is not None and len(roots) < 4:
        inner = _next_inside(inner, parameters)
        if inner is not None:
            roots.append(inner)
    return [module for module in roots if _hookable(module)]


def containers(module: nn.Module) -> list[nn.Module]:
    """Modules that hold this one directly: a compiled or distributed wrapper."""
    return [
        item
        for item in gc.get_objects()
        if is_module(item) and any(child is module for child in _children(item))
    ]


def unwrapped(module: nn.Module) -> nn.Module:
    """The user's own module inside DDP, FSDP, DeepSpeed and torch.compile wrappers."""
    for _ in range(8):
        children = _children(module)
        if len(children) != 1 or not any(n in module._modules for n in _ORDINARY_WRAPPERS):
            break
        module = children[0]
    return module


def parameters_hash(module: nn.Module) -> str:
    """The sha256 over the sorted names and shapes of the parameters."""
    lines = []
    for name, parameter in unwrapped(module).named_parameters():
        shape = tuple(getattr(parameter, "ds_shape", parameter.shape))  # ZeRO-3 empties them
        name = ".".join(part for part in name.split(".") if part != "_orig_mod")
        lines.append(f"{name} {shape}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def optimizers() -> list[Any]:
    """Living optimizers, for runs whose optimizer hooks never fire (compiled steps)."""
    from torch.optim import Optimizer

    return [item for item in gc.get_objects() if Optimizer in type(item).__mro__]


def owned(optimizer: Any) -> list[Any]:
    """The parameters of an optimizer."""
    return [p for group in getattr(optimizer, "param_groups", ()) for p in group.get("params", ())]


def _children(module: nn.Module) -> list[nn.Module]:
    modules = module.__dict__.get("_modules") or {}
    return [child for child in modules.values() if child is not None]


def _cover(module: nn.Module, parameters: set[int]) -> int:
    return sum(id(p) in parameters for p in module.parameters())


def _next_inside(module: nn.Module, parameters: set[int]) -> nn.Module | None:
    if "_orig_mod" in module._modules:
        return None  # what lies inside is compiled: hooks there are traced away
    best = max(_children(module), key=lambda child: _cover(child, parameters), default=None)
    return best if best is not None and _cover(best, parameters) else None


def _is_deepspeed(module: nn.Module) -> bool:
    return any(kind.__name__ == "DeepSpeedEngine" for kind in type(module).__mro__)


def _hookable(module: nn.Module) -> bool:
    return not type(module).__module__.startswith("torch.jit")
