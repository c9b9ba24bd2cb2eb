"""Exporters of a run: one file per destination.

A module here whose name does not begin with ``_`` and that defines ``EXPORTER`` is found
automatically; a third party's comes through an entry point of the group ``probe.exporters`` that
names such an object. All of them pass ``tests/contract/test_exporters.py``.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from probe.plugins import discover, load
from probe.spelling import meant_or_all

from ._shared.run import ExportRefused, StoredRun

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

EXPORTERS = "probe.exporters"  # the group of entry points


class Exporter(Protocol):
    """A destination. Frozen dataclasses, their fields being its options (``--set name=value``)."""

    @property
    def name(self) -> str:
        """The name in ``probe export RUN --to NAME``."""

    @property
    def output(self) -> str:
        """The default file or directory; ``{id}`` stands for the run's id."""

    def export(self, run: StoredRun, output: Path) -> str:
        """Write it; returns one line that says what and where.

        Raises:
            ExportRefused: the run lacks what this needs, or a package does.
            OSError: it cannot be written; nothing half-written stays.
        """


def exporters() -> dict[str, Exporter]:
    """Every exporter by name: the modules here, then third parties'."""
    by_name: dict[str, Exporter] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(loaded, "EXPORTER"):
            by_name[loaded.EXPORTER.name] = loaded.EXPORTER
    for name in discover(EXPORTERS):
        if name not in by_name:
            by_name[name] = cast(Exporter, load(EXPORTERS, name))
    return by_name


def exporter_of(name: str, options: dict[str, str] | None = None) -> Exporter:
    """The exporter of that name, with options as a command line gives them.

    Raises:
        UsageError: no such exporter or option, or a value of the wrong type.
    """
    by_name = exporters()
    if name not in by_name:
        raise ExportRefused(f"no exporter {name!r}{meant_or_all(name, sorted(by_name))}")
    exporter = by_name[name]
    return _with(exporter, options) if options else exporter


def _with(exporter: Exporter, options: dict[str, str]) -> Exporter:
    instance = cast("DataclassInstance", exporter)
    own = {field.name: field for field in fields(instance) if field.init}
    values: dict[str, str | float] = {}
    for key, text in options.items():
        if key not in own:
            raise ExportRefused(f"{exporter.name} has no option {key!r}{meant_or_all(key, own)}")
        values[key] = _value(exporter.name, key, text, str(own[key].type))
    return cast(Exporter, replace(instance, **values))


def _value(name: str, key: str, text: str, type_: str) -> str | float:
    if "float" not in type_:
        return text
    try:
        return float(text)
    except ValueError:
        raise ExportRefused(f"{name}: {key}={text!r} is not a number") from None


__all__ = ["ExportRefused", "Exporter", "StoredRun", "exporter_of", "exporters"]
