"""What ``probe calibrate`` found out about a GPU's meters, kept by UUID and driver.

A file per card under $PROBE_CALIBRATION, else $XDG_CACHE_HOME/phasewatt/calibration, else
~/.cache/phasewatt/calibration. A new driver makes it void: sensors change with it.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from ...cache_folder import cache_folder, keep

VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Times in s; None where a card has no such call. Errors are one standard deviation.

    ``lag_s`` is the time constant between board power and the counter, ``delay_s`` how late it is
    besides (they trade off); ``average_s`` the window of a moving average in the lag's place,
    ``part_s`` what a sensor that looks at a part of each period integrates of it.
    """

    uuid: str
    name: str
    driver: str
    measured: str  # ISO 8601
    lag_s: float
    lag_error_s: float
    delay_s: float
    delay_error_s: float
    average_s: float | None
    part_s: float | None
    counter_period_s: float
    counter_jitter_s: float
    counter_read_s: float
    instant_period_s: float | None  # field 186
    instant_window_s: float | None
    average_period_s: float | None  # field 185
    average_window_s: float | None
    fields_clock: str | None  # what nvmlDeviceGetFieldValues stamps with


def folder() -> Path:
    """Where calibrations are kept."""
    return cache_folder("calibration")


def save(calibration: Calibration) -> Path:
    """Write a card's calibration to its file. Raises OSError."""
    path = folder() / f"{calibration.uuid}.json"
    keep(path, {"version": VERSION} | asdict(calibration))
    return path


def load(uuid: str, driver: str) -> Calibration | None:
    """The calibration of a card under this driver; None without one, or if it cannot be read."""
    try:
        stored = json.loads((folder() / f"{uuid}.json").read_text(encoding="utf-8"))
        if stored.pop("version") != VERSION or stored["driver"] != driver:
            return None
        kept = Calibration(**stored)
        sane = 0 <= kept.lag_s < 1 and abs(kept.delay_s) < 1 and math.isfinite(kept.delay_s)
        return kept if sane else None
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, AttributeError):
        return None
