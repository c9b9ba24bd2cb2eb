"""Stands for the module ``cython`` where that is not installed; its declarations do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

compiled = False
# Types, as the modules name them.
bint = int = longlong = p_ulonglong = Py_ssize_t = ulong = ulonglong = void = None  # noqa: A001


def declare(_kind: Any = None, value: Any = None, **_types: Any) -> Any:
    """Declare the type of a module's variable or a class's attribute."""
    return value


def cclass(owner: T) -> T:
    """Mark a class, or a function, as compiled to C."""
    return owner


ccall = cfunc = final = cclass


def exceptval(**_options: Any) -> Callable[[T], T]:
    """Say which C value means that an exception was raised."""
    return cclass
