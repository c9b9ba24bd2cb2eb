"""Finds the sensors: every module below this package, then third parties' entry points.

A plug-in that cannot be imported must not end a recording: it is replaced by a sensor that is
absent with the reason.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar, cast

from ..errors import SensorUnavailable
from ..model import Absence, Reading, Source
from ..plugins import discover
from ..units import NS_PER_S
from .base import Sensor, SensorContext

SENSORS = "probe.sensors"  # the group of entry points
_VERBS = ("open", "read", "next_read_ns", "close")


def discover_sensors() -> dict[str, type[Sensor]]:
    """Every sensor by name: the modules of ``probe.sensors``, then third parties'.

    Never raises for a broken plug-in; a third party cannot replace a built-in.
    """
    sensors: dict[str, type[Sensor]] = {}
    for module in _modules(Path(__file__).parent, __package__):
        try:
            loaded = importlib.import_module(module)
            kinds = [kind for kind in _classes(loaded) if _is_sensor(kind)]
        except Exception as error:
            kinds = [_broken(module.rpartition(".")[2], f"{type(error).__name__}: {error}")]
        sensors |= {kind.name: kind for kind in kinds}
    for name, entry in discover(SENSORS).items():
        kind = _third_party(name, entry, taken=sensors.keys())
        sensors[kind.name] = kind
    return sensors


def _modules(folder: Path, package: str) -> Iterator[str]:
    """Names of the modules in a package and in the packages below it."""
    for module in pkgutil.iter_modules([str(folder)]):
        if module.ispkg:
            yield from _modules(folder / module.name, f"{package}.{module.name}")
        elif not module.name.startswith("_"):
            yield f"{package}.{module.name}"


def _classes(module: Any) -> list[Any]:
    own = (value for value in vars(module).values() if isinstance(value, type))
    return [kind for kind in own if kind.__module__ == module.__name__]


def _is_sensor(kind: Any) -> bool:
    return isinstance(getattr(kind, "name", None), str) and all(
        callable(getattr(kind, verb, None)) for verb in _VERBS
    )


def _third_party(name: str, entry: EntryPoint, taken: Iterable[str]) -> type[Sensor]:
    owner = entry.dist.name if entry.dist is not None else entry.module
    try:
        kind = entry.load()
    except Exception as error:
        return _broken(name, f"{owner}: {type(error).__name__}: {error}", taken)
    if not _is_sensor(kind):
        return _broken(name, f"{owner}: {entry.value} is not a sensor class", taken)
    if kind.name in taken:
        return _broken(kind.name, f"{owner}: the name {kind.name!r} is taken", taken)
    return cast(type[Sensor], kind)


def _broken(wanted: str, reason: str, taken: Iterable[str] = ()) -> type[Sensor]:
    """A sensor that is always absent, because its plug-in is broken."""
    while wanted in taken:
        wanted += "'"

    class BrokenSensor:
        name: ClassVar[str] = wanted

        def __init__(self, context: SensorContext) -> None:
            self.absent: list[Absence] = []
            self.warnings: list[str] = []
            self._clock = context.clock

        def open(self) -> Sequence[Source]:
            raise SensorUnavailable(f"the plug-in cannot be used: {reason}")

        def read(self) -> Iterable[Reading]:
            return ()

        def next_read_ns(self) -> int:
            return self._clock.now_ns() + NS_PER_S

        def close(self) -> None:
            return None

    return BrokenSensor
