"""Every key of a report's JSON, from the schema that ``probe report --schema`` prints."""

from __future__ import annotations

import json
import re
from typing import Any

from probe.report.serialization import SCHEMA_FILE

_HEAD = """# The JSON of a report

`probe report RUN --format json` and `report.to_json()` write it; `probe report --schema` prints its
JSON Schema. It is a [Report](#report), or of several trainings below one command a
[GroupReport](#groupreport). What stays as it is: [Stability](../stability.md).

Names end in units: `_s` seconds, `_ns` nanoseconds, `_j` joules, `_w` watts, `_g` grams. A value
that is not known is null, never 0. An interval is a list of its two ends, and holds the true value
in 95 of 100 cases. A key marked \\* is always there.
"""
_FIRST = ("Report", "GroupReport")


def page() -> str:
    """The page, in Markdown."""
    types: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))["$defs"]
    order = [*_FIRST, *sorted(types.keys() - {*_FIRST})]
    return _HEAD + "".join(_described(name, types[name]) for name in order)


def _described(name: str, type_: dict[str, Any]) -> str:
    lines = ["", f"## {name}", "", prose(type_.get("description", ""))]
    if "enum" in type_:
        lines += ["", "One of " + ", ".join(f"`{value}`" for value in type_["enum"]) + "."]
    elif "properties" not in type_:
        shown = _shown(type_)
        lines += ["", f"{shown[:1].upper()}{shown[1:]}."]
    else:
        required, always = type_.get("required", ()), r" \*"
        lines += ["", "| key | what it holds | type |", "| --- | --- | --- |"]
        lines += [
            f"| `{key}`{always if key in required else ''} | {_held(value)} | {_shown(value)} |"
            for key, value in type_["properties"].items()
        ]
    return "\n".join(lines) + "\n"


def prose(docstring: str) -> str:
    """A docstring as Markdown: reST's code quotes and roles become plain ones."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", docstring).replace("``", "`")


def _held(value: dict[str, Any]) -> str:
    """What a key holds, as the cell of a table."""
    return " ".join(prose(value["description"]).split()).replace("|", r"\|")


def _shown(value: dict[str, Any]) -> str:
    """A value's type in words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_shown(choice) for choice in value["anyOf"]))
    if "const" in value:
        return f"`{value['const']}`"
    if value.get("type") == "array":
        if "prefixItems" in value:
            return "[" + ", ".join(_shown(item) for item in value["prefixItems"]) + "]"
        return f"list of {_shown(value['items'])}"
    if value.get("type") == "object":
        more = value.get("additionalProperties")
        return f"object of {_shown(more)}" if isinstance(more, dict) else "object"
    return str(value.get("type", "any value"))
