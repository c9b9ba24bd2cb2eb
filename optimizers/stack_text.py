"""Techniques as text, as ``--stack`` takes them and as a stack's name is written.

``accumulation(k=4..8),zero(stage=3)`` is what one types, ``accumulation:k=4..8+zero:stage=3`` what
names are made of: no character that a shell, or a list with commas, would take for its own. Both
forms can be read. Values are those of the technique's fields; what else a text or a name of a layer
holds is written with per cent signs, as in addresses.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote, unquote

from .errors import TechniqueRefused
from .technique import Technique

_RANGE = re.compile(r"(\d+)\.\.(\d+)")


class _Unfit(ValueError):
    """A text that is no value of a type."""


def split(text: str, separators: str = ",+") -> list[str]:
    """The parts between separators that are outside of brackets; empty ones are left out.

    Raises:
        TechniqueRefused: a bracket is not closed, or was never opened.
    """
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth not in (0, 1):
            break
        if character in separators and not depth:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise TechniqueRefused(
            f"a bracket of {text!r} is not closed or not opened: write precision(dtype=fp16)"
        )
    return [part.strip() for part in parts if part.strip()]


def read(text: str) -> tuple[str, dict[str, str]]:
    """(name, its options) of one technique. Raises TechniqueRefused where it cannot be read."""
    name, bracket, inner = text.partition("(")
    if bracket:
        if not inner.endswith(")"):
            raise TechniqueRefused(f"{text!r}: nothing but a comma may follow a bracket")
        written = split(inner[:-1], ",")
    else:
        name, *written = text.split(":")
    options: dict[str, str] = {}
    for option in written:
        field, equals, value = (word.strip() for word in option.partition("="))
        if not equals or not field:
            raise TechniqueRefused(f"{text!r}: {option!r} is no option: write field=value")
        if field in options:
            raise TechniqueRefused(f"{text!r}: {field} is given twice")
        options[field] = value
    return name.strip(), options


def make(
    kind: type[Technique], options: Mapping[str, str], base: Technique | None = None
) -> Technique:
    """The technique with these options; what is not given is ``base``'s, else the default.

    Raises:
        TechniqueRefused: it has no such field, or a value is of another type.
    """
    names = [field.name for field in _fields(kind)]
    values: dict[str, Any] = {}
    for field, text in options.items():
        if field not in names:
            raise TechniqueRefused(f"{kind.name} has no field {field!r}; {_described(kind)}")
        ends = _span(kind).get(field)
        if ends and (span := _RANGE.fullmatch(text)):
            lowest, highest, switch = ends
            low, high = int(span[1]), int(span[2])
            if low > high:
                raise TechniqueRefused(f"{kind.name}: {field}={text}: the smaller one comes first")
            values |= {field: low, lowest: low, highest: high, switch: True}
            continue
        try:
            hint = get_type_hints(kind)[field]
            values[field] = _value(text, hint)
        except (_Unfit, NameError) as error:
            what = f"is not {error}" if isinstance(error, _Unfit) else "cannot be read from a text"
            raise TechniqueRefused(
                f"{kind.name}: {field}={text} {what}; {_described(kind)}"
            ) from None
        if ends and ends[2] not in options and base is not None:
            values[ends[2]] = False  # one value, where the base has a range
    try:
        if base is None:
            return kind(**values)
        return dataclasses.replace(base, **values) if values else base  # type: ignore[type-var]
    except TypeError:
        raise TechniqueRefused(f"{kind.name} needs more options; {_described(kind)}") from None


def write(technique: Technique, base: Technique | None = None) -> str:
    """The technique in the form of names: what differs from ``base``, else from the defaults."""
    text, kind = technique.name, type(technique)
    fields = _fields(kind)
    values = {field.name: getattr(technique, field.name) for field in fields}
    usual = {
        field.name: _default(field) if base is None else getattr(base, field.name, None)
        for field in fields
    }
    written = {name: _text(value) for name, value in values.items() if value != usual[name]}
    for name, (lowest, highest, switch) in _span(kind).items():
        if not values[switch] or {name, lowest, highest, switch}.isdisjoint(written):
            continue
        if values[name] == values[lowest]:
            written = {
                name: f"{values[lowest]}..{values[highest]}",
                **{k: v for k, v in written.items() if k not in (name, lowest, highest, switch)},
            }
        else:
            written[switch] = "true"
    return text + "".join(f":{name}={value}" for name, value in written.items())


def _fields(kind: type[Technique]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


def _span(kind: type[Technique]) -> Mapping[str, tuple[str, str, str]]:
    spans: Mapping[str, tuple[str, str, str]] = getattr(kind, "spans", {})
    return spans


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _described(kind: type[Technique]) -> str:
    fields = _fields(kind)
    if not fields:
        return f"{kind.name} has no options"
    shown = (
        field.name
        if (value := _default(field)) is dataclasses.MISSING
        else f"{field.name}={_text(value)}"
        for field in fields
    )
    return f"{kind.name} has {', '.join(shown)}"


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "/".join(_text(part) for part in value)
    return quote(str(value), safe="")


def _value(text: str, hint: Any) -> Any:
    """The value of a type that a text stands for. Raises _Unfit, which names the type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        unfit = []
        for kind in sorted(inner, key=lambda part: part is not types.NoneType):
            try:
                return _value(text, kind)
            except _Unfit as error:
                unfit.append(str(error))
        raise _Unfit(" or ".join([*unfit[1:], *unfit[:1]]))
    if origin is Literal:
        for choice in inner:
            if text == str(choice):
                return choice
        raise _Unfit(" or ".join(map(str, inner)))
    if origin is tuple:
        return tuple(_value(part, inner[0]) for part in re.split("[/;]", text) if part)
    if hint is types.NoneType or hint is bool:
        words = {"none": None} if hint is types.NoneType else {"true": True, "false": False}
        if text.lower() not in words:
            raise _Unfit(" or ".join(words))
        return words[text.lower()]
    if hint in (int, float):
        try:
            return hint(unquote(text))
        except ValueError:
            raise _Unfit("a whole number" if hint is int else "a number") from None
    if hint is str:
        return unquote(text)
    raise _Unfit(f"to be written as a text ({hint})")
