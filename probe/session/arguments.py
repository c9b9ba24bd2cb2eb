"""What people pass to ``watch()``: swapped, wrong and strange arguments."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from ..report.model import JsonValue

_DEEPEST = 20
_LONGEST = 500


def model_and_optimizer(model: Any, optimizer: Any) -> tuple[Any, Any]:
    """The two in this order, whichever way round they were passed.

    Raises:
        UsageError: one of them is something else.
    """
    if _is_optimizer(model) and (optimizer is None or _is_model(optimizer)):
        model, optimizer = optimizer, model
    if model is not None and not _is_model(model):
        raise UsageError(
            f"model is {_named(model)}: pass the torch.nn.Module that is trained, or nothing"
        )
    if optimizer is not None and not _is_optimizer(optimizer):
        raise UsageError(f"optimizer is {_named(optimizer)}: pass the optimizer, or nothing")
    return model, optimizer


def plain(value: object) -> JsonValue:
    """Anything as what JSON can hold; what it cannot becomes text. Never raises."""
    return _plain(value, (), 0)


def plain_config(config: object) -> dict[str, JsonValue] | None:
    """The run's configuration by name: of a mapping, a dataclass or a namespace; else one entry."""
    if config is None:
        return None
    value = plain(config)
    return value if isinstance(value, dict) else {"config": value}


def _is_model(value: object) -> bool:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(_is_model(part) for part in value)
    return hasattr(value, "register_forward_pre_hook") or (
        hasattr(value, "parameters") and callable(value)
    )


def _is_optimizer(value: object) -> bool:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return len(value) > 0 and all(_is_optimizer(part) for part in value)
    return callable(getattr(value, "step", None)) and not hasattr(
        value, "register_forward_pre_hook"
    )


def _named(value: object) -> str:
    return f"of type {type(value).__name__}"


def _plain(value: object, around: tuple[int, ...], depth: int) -> JsonValue:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if id(value) in around or depth >= _DEEPEST:
        return "…"
    inside = (*around, id(value))
    try:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        elif type(value).__name__ == "Namespace" and hasattr(value, "__dict__"):
            value = vars(value)
        if isinstance(value, Mapping):
            return {str(key): _plain(value[key], inside, depth + 1) for key in value}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_plain(part, inside, depth + 1) for part in value]
        return str(value)[:_LONGEST]
    except Exception:
        return f"<{type(value).__name__}>"
