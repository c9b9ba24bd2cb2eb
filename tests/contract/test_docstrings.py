"""Every public class, function and method has a docstring: its own, an inherited one, or that of a
protocol which its class implements.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

from probe.integrations.frameworks import FrameworkError

PACKAGES = ("probe", "optimizers", "exporters", "dashboard")
NOT_IMPORTED = {"__main__", "sitecustomize"}  # they act when they are imported


@functools.cache
def modules(package: str) -> tuple[ModuleType, ...]:
    root = importlib.import_module(package)
    names = (module.name for module in pkgutil.walk_packages(root.__path__, f"{package}."))
    imported = [root]
    for name in names:
        if NOT_IMPORTED.isdisjoint(name.split(".")):
            with contextlib.suppress(FrameworkError):  # of an entry whose framework is not here
                imported.append(importlib.import_module(name))
    return tuple(imported)


def classes(module: ModuleType) -> Iterator[type]:
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__ and name[0] != "_":
            yield value


def methods(cls: type) -> Iterator[str]:
    """Names of the public methods and properties that a class defines itself."""
    for name, value in vars(cls).items():
        defined = isinstance(value, (property, classmethod, staticmethod))
        if name[0] != "_" and (defined or inspect.isfunction(value)):
            yield name


def protocol_methods() -> set[str]:
    """Names of the documented methods of our protocols."""
    return {
        name
        for package in PACKAGES
        for module in modules(package)
        for cls in classes(module)
        if getattr(cls, "_is_protocol", False)
        for name in methods(cls)
        if inspect.getdoc(getattr(cls, name))
    }


def undocumented(module: ModuleType, documented: set[str]) -> Iterator[str]:
    for name, value in vars(module).items():
        ours = inspect.isfunction(value) and value.__module__ == module.__name__
        if ours and name[0] != "_" and not inspect.getdoc(value):
            yield f"{module.__name__}.{name}"
    for cls in classes(module):
        if not cls.__doc__:
            yield f"{module.__name__}.{cls.__name__}"
        for name in methods(cls):
            if name not in documented and not inspect.getdoc(getattr(cls, name)):
                yield f"{module.__name__}.{cls.__name__}.{name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_public_has_a_docstring(package: str) -> None:
    documented = protocol_methods()
    missing = sorted(
        name for module in modules(package) for name in undocumented(module, documented)
    )
    assert not missing, "\n".join(missing)
