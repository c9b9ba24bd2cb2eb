"""Which values the fields of a run.json or node.json may have.

A file that was edited, or that another program wrote, may hold anything. A file with one field of
another kind is reported as damaged when it is read. Code that uses a field need not check it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from ..model import RunStatus

_MOST = 1e15  # of a figure; far beyond any, and its square is still a number


def wrong_field(stored: object) -> str | None:
    """A field of run.json or node.json that has no value of its kind; None if all have one."""
    if not isinstance(stored, dict):
        return "schema"
    for name in _NEEDED:
        if stored.get(name) is None:
            return name
    for name, is_kind in _KINDS.items():
        value = stored.get(name)
        if value is not None and not is_kind(value):
            return name
    others = (name for name in stored if name not in _KINDS)
    return next((name for name in others if not _is_finite(stored[name])), None)


def is_whole(value: object) -> bool:
    """Whether a JSON value is a whole number of at most 63 bits."""
    return type(value) is int and abs(value) < 1 << 63


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= _MOST  # neither NaN nor infinity


def _is_number_or_none(value: object) -> bool:
    return value is None or _is_number(value)


def _is_finite(value: object) -> bool:
    """Whether it holds neither NaN nor infinity, which no other reader of JSON knows."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _is_count(value: object) -> bool:
    return is_whole(value) and 0 <= value < _MOST  # type: ignore[operator]


def _is_time(value: object) -> bool:
    try:
        return datetime.fromisoformat(str(value)).year > 0
    except ValueError:
        return False


def _is_status(value: object) -> bool:
    return value in list(RunStatus)


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_carbon(value: object) -> bool:
    """Empty, or an intensity with what it is of."""
    texts = ("country", "label", "source")
    return isinstance(value, Mapping) and (
        not value
        or (
            _is_number(value.get("g_per_kwh"))
            and value["g_per_kwh"] >= 0
            and all(_is_text_or_none(value.get(name)) for name in texts)
        )
    )


def _is_anchor(value: object) -> bool:
    keys = {"monotonic_ns", "wall_ns"}
    return isinstance(value, Mapping) and set(value) == keys and all(map(is_whole, value.values()))


def _with(is_kind: Callable[[object], bool], *names: str) -> Callable[[object], bool]:
    """Of an object in which each of these names is missing or of a kind."""

    def is_object(value: object) -> bool:
        return isinstance(value, Mapping) and all(
            is_kind(value[name]) for name in names if name in value
        )

    return is_object


def _is_recorder(value: object) -> bool:
    return (
        _with(is_whole, "pid", "start_ticks", "epoch")(value)
        and _with(_is_number, "cpu_s", "wall_s")(value)
        and _with(_is_number_or_none, "start_cpu_s")(value)
    )


def _list_of(is_kind: Callable[[object], bool]) -> Callable[[object], bool]:
    def is_list(value: object) -> bool:
        return (
            isinstance(value, Sequence) and not isinstance(value, str) and all(map(is_kind, value))
        )

    return is_list


_NEEDED = ("begin_ns", "started", "anchor")
_KINDS: dict[str, Callable[[object], bool]] = {
    "status": _is_status,
    "id": _is_text,
    "name": _is_text,
    "started": _is_time,
    "host": _is_text,
    "boot_id": _is_text,
    "end_ns": is_whole,
    "alive_ns": is_whole,
    "begin_ns": is_whole,
    "anchor": _is_anchor,
    "recorder": _is_recorder,
    "overhead": _with(_is_number_or_none, "share_of_step", "records"),
    "machine": lambda value: _is_object(value) and _is_finite(value),
    "total": _is_object,  # of older versions, these may hold NaN
    "logged": _is_object,
    "warnings": _list_of(lambda value: True),
    "command": _list_of(lambda value: True),
    "absent": _list_of(_with(_is_text_or_none, "sensor", "what", "reason", "remedy")),
    "carbon": _is_carbon,
    "steps": _is_count,
    "edges_lost": _is_count,
}
