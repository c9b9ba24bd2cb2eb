"""What can be plugged in, and whether it is ours.

A built-in sensor is one file in ``probe/sensors``; a third party's comes through an
entry point of the group ``probe.sensors``. Exporters and report formats are entry
points of ``probe.exporters`` and ``probe.reports``. Nothing is imported until asked for,
except the sensor modules, which are light.

A plug-in that cannot be imported must not end a recording: a sensor is replaced by one
that is absent with the reason, any other raises one clear line.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar, cast

from . import report, sensors
from .errors import ProbeError, SensorUnavailable, ShadowedPackageError, UsageError
from .model import Absence, Reading, Source
from .sensors import Sensor, SensorContext
from .units import NS_PER_S

SENSORS, EXPORTERS, REPORTS = "probe.sensors", "probe.exporters", "probe.reports"
SERVICES = "probe.services"  # what the siblings do for the command line and the recorder
SIBLINGS = ("exporters", "dashboard", "optimizers")
_VERBS = ("open", "read", "next_read_ns", "close")
_ROOT = Path(__file__).resolve().parents[1]  # the folder that holds probe/ and its siblings


def discover_sensors() -> dict[str, type[Sensor]]:
    """Every sensor by name: the modules of ``probe.sensors``, then third parties'.

    Never raises for a broken plug-in; a third party cannot replace a built-in.
    """
    found: dict[str, type[Sensor]] = {}
    for module in pkgutil.iter_modules(sensors.__path__):
        if module.name.startswith("_"):
            continue
        try:
            loaded = importlib.import_module(f"{sensors.__name__}.{module.name}")
            kinds = [kind for kind in _classes(loaded) if _is_sensor(kind)]
        except Exception as error:
            kinds = [_broken(module.name, f"{type(error).__name__}: {error}")]
        found |= {kind.name: kind for kind in kinds}
    for name, entry in discover(SENSORS).items():
        kind = _third_party(name, entry, taken=found.keys())
        found[kind.name] = kind
    return found


def discover(group: str) -> dict[str, EntryPoint]:
    """The entry points of ``group`` by name, sorted; none of them is imported."""
    return {entry.name: entry for entry in sorted(entry_points(group=group))}


def report_formats() -> list[str]:
    """Ours, then third parties'; none of theirs is imported."""
    return [*report.formats(), *(n for n in discover(REPORTS) if n not in report.formats())]


def render_report(data: dict[str, Any], format_: str) -> str | bytes:
    """The report's JSON in one of :func:`report_formats`.

    Raises:
        UsageError: no such format, what it needs is missing, or a third party's failed.
    """
    if format_ in report.formats():
        return report.render(data, format_)
    if format_ not in discover(REPORTS):
        raise UsageError(f"no report format {format_!r}: choose from {', '.join(report_formats())}")
    try:
        rendered = load(REPORTS, format_)(data)
    except ProbeError:
        raise
    except Exception as error:
        raise UsageError(f"{format_}: {type(error).__name__}: {error}") from error
    return rendered if isinstance(rendered, bytes) else str(rendered)


def load(group: str, name: str) -> Any:
    """The object behind an entry point.

    Raises:
        UsageError: there is none of that name, or it cannot be imported.
        ShadowedPackageError: its package is ours, but another one stands in its place.
    """
    known = discover(group)
    if name not in known:
        choice = ", ".join(known) or "none is installed"
        raise UsageError(f"{name!r} is not known to {group}: {choice}")
    entry = known[name]
    package = entry.module.partition(".")[0]
    if package in SIBLINGS and entry.dist is not None and entry.dist.name == "phasewatt":
        check_sibling(package)
    try:
        return entry.load()
    except ProbeError:
        raise
    except Exception as error:
        raise UsageError(f"{name!r} of {group} cannot be loaded: {error}") from error


def check_siblings() -> None:
    """Raise :class:`ShadowedPackageError` if a loaded sibling is not the one beside probe."""
    for package in SIBLINGS:
        if package in sys.modules:
            check_sibling(package)


def check_sibling(package: str) -> None:
    """Is the package that an import of ``package`` gives (or gave) the one beside probe?

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
