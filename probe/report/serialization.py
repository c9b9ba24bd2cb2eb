"""A report as JSON of schema 1, back from it, and the JSON Schema of both.

Names are those of the dataclasses; a trailing underscore keeps clear of Python's keywords
(``from_`` is ``from``). Reading checks types and needs pydantic, writing needs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..errors import UsageError
from .model import JsonValue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from .group_model import GroupReport
    from .model import Report


def to_dict(value: DataclassInstance) -> dict[str, JsonValue]:
    """A dataclass of :mod:`model`, and all below it, as JSON values."""
    return {name.rstrip("_"): _plain(getattr(value, name)) for name in _names(type(value))}


@cache
def _names(kind: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _plain(value: DataclassInstance | JsonValue) -> JsonValue:
    if isinstance(value, Enum):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value):
        return to_dict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in cast("Iterable[JsonValue]", value)]


def to_json(report: DataclassInstance) -> str:
    """As text; a value that is unknown is null, never NaN."""
    return json.dumps(to_dict(report), indent=1, allow_nan=False)


def from_json(text: str) -> Report | GroupReport:
    """A report that :func:`to_json` wrote; keys that are not known are passed over.

    Raises:
        UsageError: it is not JSON of schema 1.
    """
    try:
        return from_dict(json.loads(text))
    except ValueError as error:
        raise UsageError(f"this is not a report of schema 1: {error}") from None


def from_dict(value: JsonValue) -> Report | GroupReport:
    """As :func:`from_json`, from dicts and lists."""
    from pydantic import TypeAdapter, ValidationError

    from .group_model import GroupReport
    from .model import Report

    try:
        if isinstance(value, dict) and "group" in value:
            return TypeAdapter(GroupReport).validate_python(value)
        return TypeAdapter(Report).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"this is not a report of schema 1: {place}: {first['msg']}") from None


SCHEMA_FILE = Path(__file__).with_name("schema-1.json")  # what json_schema() says, shipped


def json_schema() -> dict[str, JsonValue]:
    """The JSON Schema of a report, of a run or of a group; docstrings of fields describe keys."""
    from pydantic import ConfigDict, TypeAdapter

    from .group_model import GroupReport
    from .model import Report

    # Here only: to read the docstrings takes the source of every type, and a report needs none.
    described = ConfigDict(use_attribute_docstrings=True)
    adapter = TypeAdapter(Report | GroupReport, config=described)
    schema: dict[str, JsonValue] = adapter.json_schema()
    return schema | {"title": "phasewatt report, schema 1"}


if __name__ == "__main__":  # python -m probe.report.serialization: write the shipped file anew
    SCHEMA_FILE.write_text(json.dumps(json_schema(), indent=1) + "\n", encoding="utf-8")
