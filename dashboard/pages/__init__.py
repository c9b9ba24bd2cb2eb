"""The pages, a module each: what defines ``PAGE`` is found by itself."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ..page import Page


@cache
def pages() -> dict[str, Page]:
    """Every page by its module's name; modules that begin with ``_`` help a page."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return {
        f"{__name__}.{name}": importlib.import_module(f"{__name__}.{name}").PAGE
        for name in names
        if not name.startswith("_")
    }
