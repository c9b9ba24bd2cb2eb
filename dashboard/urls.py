"""Addresses that several pages link to; the state of a page is its URL.

Addresses that only one page uses are in that page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

RUN, RANKS = "/run/", "/ranks/"
TABLE, CSV, SNAPSHOT = "/table/", "/csv/", "/snapshot/"
LABELS = "/labels/"  # where a run's tags and note are written
MEMBER = "~"  # in addresses between a group's id and the number of one of its trainings
_OF_GROUP = re.compile(r"[^/]+/\d+")
_MAX_SECONDS = 1e9  # nothing runs for thirty years
_MAX_DEVICES = 512
_LONGEST = 200  # characters of the name of a logged value
KEYS = ("t", "d", "v", "x")  # of the query; ``page.js`` knows them, too


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected part of a run.

    ``span`` is in seconds since its begin, ``last`` the last so many seconds; without both it is
    the whole run. ``devices`` is empty for all devices. ``value`` is what was logged that is
    drawn, ``over`` what it is drawn over; empty for what is usual.
    """

    span: tuple[float, float] | None = None
    last: float | None = None
    devices: tuple[str, ...] = ()
    value: str = ""
    over: str = ""

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Selection:
        """Parse the query: ``t=12.5-80`` or ``t=last-60``, ``d=gpu0,gpu1``, ``v=loss``, ``x=time``.

        Values that cannot be parsed are ignored.
        """
        t, d, v, x = (asked.get(key) for key in KEYS)
        span = last = None
        if isinstance(t, str):
            first, _, second = t.partition("-")
            if first == "last":
                last = _seconds(second) or None
            else:
                low, high = _seconds(first), _seconds(second)
                span = (low, high) if low is not None and high is not None and low < high else None
        names = [name for name in d.split(",") if name] if isinstance(d, str) else []
        value, over = (text[:_LONGEST] if isinstance(text, str) else "" for text in (v, x))
        return cls(span, last, tuple(dict.fromkeys(names[:_MAX_DEVICES])), value, over)

    def query(self) -> dict[str, str]:
        """The selection as the query that :meth:`of` parses."""
        query = {}
        if self.span is not None:
            query["t"] = "-".join(map(_fixed, self.span))
        elif self.last is not None:
            query["t"] = f"last-{_fixed(self.last)}"
        if self.devices:
            query["d"] = ",".join(self.devices)
        return query | {key: text for key, text in (("v", self.value), ("x", self.over)) if text}

    def within(self, duration_s: float) -> tuple[float, float]:
        """(begin, end) of the selection in seconds, for a run of ``duration_s``."""
        if self.last is not None:
            return max(0.0, duration_s - self.last), max(duration_s, 1e-3)
        if self.span is None:
            return 0.0, max(duration_s, 1e-3)
        low = min(self.span[0], max(0.0, duration_s - 1e-3))
        return low, max(low + 1e-3, min(self.span[1], duration_s))

    def of_devices(self) -> Selection:
        """The same part and devices, without what only charts of logged values need."""
        return replace(self, value="", over="")

    def everything(self) -> Selection:
        """The same devices over the whole run."""
        return replace(self, span=None, last=None)


def run(run_id: str, selection: Selection | None = None) -> str:
    """The page of a run, below the base path; of a training of a group, ``<group>/3``, too."""
    if _OF_GROUP.fullmatch(run_id):
        run_id = run_id.replace("/", MEMBER)
    return RUN + quote(run_id, safe="") + query((selection or Selection()).query())


def ranks(run_id: str) -> str:
    """The page of a run's ranks, below the base path."""
    return RANKS + quote(run_id, safe="")


def chart(*place: str, asked: object = ()) -> tuple[str, str]:
    """The table and the CSV of a chart, below the base path.

    Args:
        place: as the page names its tables: ``"run", run_id, name``.
        asked: pairs of the query, or a mapping.
    """
    path = "/".join(quote(part, safe="") for part in place) + query(asked)
    return TABLE + path, CSV + path


def snapshot(*place: str, asked: object = ()) -> str:
    """The page of these parts as one file, below the base path."""
    return SNAPSHOT + "/".join(quote(part, safe="") for part in place) + query(asked)


def query(pairs: object) -> str:
    """``?a=b``, or nothing for nothing."""
    text = urlencode(pairs)  # type: ignore[arg-type]
    return f"?{text}" if text else ""


def _fixed(seconds: float) -> str:
    """To the microsecond, without an exponent: its sign would be taken for the dash between."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= _MAX_SECONDS else None
