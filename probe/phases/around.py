# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""The two wrappers that no graph of dynamo's holds: they need not be seen through, so are compiled.

``session.target`` is None once nobody listens; then a wrapper only calls the original.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hub import Session

Call = Callable[..., Any]


def asks_tracing() -> Callable[[], bool]:
    """What tells whether torch traces what runs now: a graph's backward is none of the training's.

    It reads what ``torch.compiler.is_compiling`` returns, which takes many times as long to call.
    """
    compiler = sys.modules["torch.compiler"]
    if hasattr(compiler, "_is_compiling_flag"):
        return lambda: compiler._is_compiling_flag
    asks: Callable[[], bool] = compiler.is_compiling
    return asks


def around_data(original: Call, session: Session) -> Call:
    """Of ``_BaseDataLoaderIter.__next__``."""

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 (the name it replaces)
        target = session.target
        if target is None:
            return original(self)
        token, got = None, False
        try:
            token = target.data_begin()
            item = original(self)
            got = True
            return item
        finally:
            if token:
                target.data_end(token, got)

    return __next__


def around_backward(original: Call, session: Session) -> Call:
    """Of ``torch.autograd._engine_run_backward``."""
    tracing = asks_tracing()

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        target = session.target
        if target is None or tracing():
            return original(*args, **kwargs)
        token, done = None, False
        try:
            token = target.backward_begin()
            gradients = original(*args, **kwargs)
            done = True
            return gradients
        finally:
            if token:
                target.backward_end(token, done)

    return run
