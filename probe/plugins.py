"""Entry points of other packages, and whether a sibling package is ours.

Sensors, exporters, report formats and services are found by entry point; nothing is imported until
it is asked for. An import that fails raises an error of one line.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from .errors import ProbeError, ShadowedPackageError, UsageError
from .spelling import meant_or_all

SERVICES = "probe.services"  # what the siblings do for the command line and the recorder
SIBLINGS = ("exporters", "dashboard", "optimizers")
_ROOT = Path(__file__).resolve().parents[1]  # the folder that holds probe/ and its siblings


def discover(group: str) -> dict[str, EntryPoint]:
    """The entry points of ``group`` by name, sorted; none of them is imported."""
    return {entry.name: entry for entry in sorted(entry_points(group=group))}


def load(group: str, name: str) -> Any:
    """The object behind an entry point.

    Raises:
        UsageError: there is none of that name, or it cannot be imported.
        ShadowedPackageError: its package is ours, but another one of that name is found first.
    """
    entries = discover(group)
    if name not in entries:
        raise UsageError(f"{name!r} is not known to {group}{meant_or_all(name, entries)}")
    entry = entries[name]
    package = entry.module.partition(".")[0]
    if package in SIBLINGS and entry.dist is not None and entry.dist.name == "phasewatt":
        check_sibling(package)
    try:
        return entry.load()
    except ProbeError:
        raise
    except Exception as error:
        raise UsageError(f"{name!r} of {group} cannot be loaded: {error}") from error


def check_sibling(package: str) -> None:
    """Check that an import of ``package`` gives (or gave) the one beside probe.

    Raises:
        ShadowedPackageError: another one comes first on the path; both are named.
        UsageError: there is none at all.
    """
    places = _places(package)
    if not places:
        raise UsageError(f"the package {package!r} is not installed beside {_ROOT / 'probe'}")
    if _ROOT / package not in places:
        raise ShadowedPackageError(
            f"{package!r} is {places[0]}, not phasewatt's own {_ROOT / package}: rename that "
            "folder, or start from another directory (through the command `probe`)"
        )


def _places(package: str) -> list[Path]:
    """The folders that ``package`` is loaded from, or would be."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        paths = list(getattr(loaded, "__path__", ()))
        file = getattr(loaded, "__file__", None)
    else:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            return []
        if spec is None:
            return []
        paths, file = list(spec.submodule_search_locations or ()), spec.origin
    if not paths and file:
        paths = [file]  # a module exporters.py shadows the package as well
    return [Path(path).resolve() for path in paths]
