"""The options of ``watch()``: arguments, else ``PROBE_…`` variables, checked."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..store import dashboard_address
from ..target import Target
from .arguments import plain_config

_YES = ("1", "true", "yes")

if TYPE_CHECKING:
    from ..report.model import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What :class:`probe.watch` was given, checked; ``dir`` is None for the usual place.

    ``prometheus`` is a port or "host:port", ``dashboard`` a port, ``dither`` a share of the steps,
    ``hang_after_s`` seconds without an edge that are a hang.
    ``simulate`` is set by `probe demo` alone: it makes the simulated card's tape in the new run, or
    raises StoreError.
    """

    name: str | None
    dir: str | os.PathLike[str] | None
    devices: str | None
    country: str | None
    dither: float | None
    target: str | None
    prometheus: str | None
    dashboard: int | None
    config: dict[str, JsonValue] | None
    data: str | None
    modules: bool
    classify: bool
    resume: str | os.PathLike[str] | None = None
    hang_after_s: float | None = None
    simulate: Callable[[Path], object] | None = None


def options(
    *,
    name: str | None,
    dir_: str | os.PathLike[str] | None,
    devices: str | list[int] | None,
    prometheus: int | str | None,
    country: str | None,
    dither: float | None,
    target: str | None,
    config: object,
    data: str | None,
    modules: bool,
    classify: bool,
    dashboard: bool | int,
    resume: str | os.PathLike[str] | None = None,
    hang_after: float | None = None,
) -> WatchOptions:
    """The options, as :class:`probe.watch` documents them, else as the environment has them.

    Raises:
        UsageError: one of them cannot be used.
    """
    environment = os.environ.get
    if isinstance(devices, (list, tuple)):
        devices = ",".join(str(device) for device in devices)
    return WatchOptions(
        name=_text(name) or environment("PROBE_NAME") or None,
        dir=_folder("dir", dir_),
        devices=_text(devices) or environment("PROBE_DEVICES") or None,
        country=_country(country or environment("PROBE_COUNTRY") or None),
        dither=_share(dither if dither is not None else environment("PROBE_DITHER")),
        target=_target(target or environment("PROBE_TARGET") or None),
        prometheus=_address(
            prometheus if prometheus is not None else environment("PROBE_PROMETHEUS")
        ),
        dashboard=dashboard_port(dashboard or environment("PROBE_DASHBOARD")),
        config=plain_config(config),
        data=_text(data) or environment("PROBE_DATA") or None,
        modules=bool(modules) or environment("PROBE_MODULES") in _YES,
        classify=bool(classify) or environment("PROBE_CLASSIFY") in _YES,
        resume=_folder("resume", resume or environment("PROBE_RESUME") or None),
        hang_after_s=_seconds(
            hang_after if hang_after is not None else environment("PROBE_HANG_AFTER")
        ),
    )


def _text(value: object) -> str | None:
    """What is not text yet (``name=seed``, ``devices=0``) as text; None if it is not set."""
    return None if value is None else str(value)


def _folder(name: str, value: str | os.PathLike[str] | None) -> str | os.PathLike[str] | None:
    if value is not None and not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name}={value!r} is no directory: write for example 'runs'")
    return value


def _seconds(minutes: float | str | None) -> float | None:
    """Minutes without a step in seconds; None for no watch of hangs."""
    if minutes is None or minutes == "":
        return None
    try:
        seconds = 60 * float(minutes)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise UsageError(f"hang_after={minutes!r} is no number of minutes: write for example 5")
    return seconds or None


def _target(value: str | None) -> str | None:
    return str(Target.of(str(value))) if value is not None else None


def _country(value: str | None) -> str | None:
    if value is not None and not (isinstance(value, str) and len(value) == 3 and value.isalpha()):
        raise UsageError(
            f"country={value!r} is not an ISO 3166 alpha-3 code: write for example 'FRA'"
        )
    return value.upper() if value else None


def _address(value: int | str | None) -> str | None:
    """A port or "host:port" as text; None if it is not set."""
    if value is None or value == "":
        return None
    port = str(value).rpartition(":")[2]
    if not port.isdecimal() or not 0 < int(port) <= 65535:
        raise UsageError(f"prometheus={value!r} is not a port number: write for example 9400")
    return str(value)


def dashboard_port(value: bool | int | str | None) -> int | None:
    """The dashboard's port; None without a dashboard.

    Raises:
        UsageError: no port, or Dash is not installed.
    """
    if value is None or value is False or value in ("", "0", "false", "no"):
        return None
    if value is True or value in ("1", "true", "yes"):
        port = dashboard_address.PORT
    elif str(value).isdecimal() and 0 < int(value) <= 65535:
        port = int(value)
    else:
        raise UsageError(f"dashboard={value!r}: write True, or a port")
    dashboard_address.check_installed()
    return port


def _share(value: float | str | None) -> float | None:
    """A share of steps, in (0, 1]; None for none."""
    if value is None or value == "":
        return None
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"dither={value!r} is no share of steps: write for example 0.1")
    return share or None
