"""The framework of an entry, imported when the entry is."""

from __future__ import annotations

import importlib
import re
from typing import Any

from ..errors import ProbeError


class FrameworkError(ProbeError, ImportError):
    """An entry's framework is not installed, or older than the entry supports."""


def imported(package: str, oldest: str, module: str = "") -> Any:
    """A framework, or a module of it.

    Args:
        package: as pip calls it.
        oldest: version that the entry supports, as "4.50".
        module: what to import; the package itself if it is empty.

    Raises:
        FrameworkError: it is not installed, cannot be imported, or is older.
    """
    try:
        framework = importlib.import_module(module or package.replace("-", "_"))
        version = importlib.import_module((module or package).split(".")[0].replace("-", "_"))
    except ImportError as error:
        why = "is not installed" if isinstance(error, ModuleNotFoundError) else f"fails: {error}"
        raise FrameworkError(f"{package} {why}: pip install '{package}>={oldest}'") from None
    installed = str(getattr(version, "__version__", ""))
    if _numbers(installed) < _numbers(oldest):
        raise FrameworkError(
            f"{package} {installed} is older than {oldest}: pip install '{package}>={oldest}'"
        )
    return framework


def _numbers(version: str) -> tuple[int, ...]:
    """The release of a version as numbers, without what is before or after it ("5.0rc1")."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
