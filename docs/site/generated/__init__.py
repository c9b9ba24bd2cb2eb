"""Pages that follow from the code: made when the site is built, not kept in the repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import commands, other_json, python, schema


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes a page, and the markup that it is in (``.md`` or ``.rst``)."""

    make: Callable[[], str]
    suffix: str = ".md"


MAKERS = {
    "(commands)": Maker(commands.page),
    "(schema)": Maker(schema.page),
    "(other json)": Maker(other_json.page),
    "(python)": Maker(python.page, ".rst"),
}
