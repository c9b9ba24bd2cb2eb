"""The plain values that a report's types consist of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from typing_extensions import TypeAliasType

Interval = tuple[float, float]
JsonValue = TypeAliasType(
    "JsonValue", "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)


def _key(name: str) -> str:
    """The JSON key of a field; ``from_`` keeps clear of Python's keyword."""
    return name.strip("_")


PydanticConfig = Mapping[str, bool | Callable[[str], str]]
# For a type that has such a field. It replaces the settings of the types around it, so it repeats
# that docstrings describe fields (serialization.json_schema).
KEYWORD_KEYS: PydanticConfig = {"alias_generator": _key, "use_attribute_docstrings": True}
