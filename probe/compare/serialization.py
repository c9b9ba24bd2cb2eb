"""A comparison as JSON: fields become keys, what is not known becomes null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Field = (
        DataclassInstance
        | Mapping[str, "Field"]
        | Sequence["Field"]
        | bool
        | int
        | float
        | str
        | None
    )

# What json.dumps takes.
JsonValue = bool | int | float | str | None | list["JsonValue"] | dict[str, "JsonValue"]


def to_dict(value: DataclassInstance) -> dict[str, JsonValue]:
    """A result as JSON; a field whose name is a keyword of Python has a key without underscore."""
    return {each.name.removesuffix("_"): _json(getattr(value, each.name)) for each in fields(value)}


def _json(value: Field) -> JsonValue:
    if is_dataclass(value):
        return to_dict(value)
    if isinstance(value, Mapping):
        return {str(key): _json(entry) for key, entry in value.items()}
    if isinstance(value, StrEnum):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Sequence):
        return [_json(entry) for entry in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")
