"""What a report of a run and one of a group can do: be shown, and be exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from .values import JsonValue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from ..group_model import GroupReport
    from .report import Report


class PrettyPrinter(Protocol):
    """What IPython gives to ``_repr_pretty_``."""

    def text(self, text: str) -> None:
        """Print it."""


class Rendered:
    """What a report of a run and one of a group can do: be shown, and be exported."""

    __slots__ = ()

    def render(self, format: str = "text") -> str | bytes:  # noqa: A002
        """In one of the installed formats; bytes of one that is not text.

        Raises:
            UsageError: no such format, or what it needs is not installed.
        """
        from ..formats import render

        return render(cast("Report | GroupReport", self), format)

    def to_dict(self) -> dict[str, JsonValue]:
        """The report's JSON, schema 1, as dicts and lists."""
        from ..serialization import to_dict

        return to_dict(cast("DataclassInstance", self))

    def to_json(self) -> str:
        """The report's JSON, schema 1, as text."""
        from ..serialization import to_json

        return to_json(cast("DataclassInstance", self))

    def __str__(self) -> str:
        return str(self.render("text"))

    def __repr__(self) -> str:
        from ..group_document import document_of

        shown = document_of(cast("Report | GroupReport", self))
        return f"<{type(self).__name__}: {shown.name}, {shown.state}>"

    def _repr_html_(self) -> str:
        """For notebooks: the answer, a table, a chart."""
        from ..notebook import fragment

        return fragment(cast("Report | GroupReport", self))

    def _repr_pretty_(self, printer: PrettyPrinter, cycle: bool) -> None:
        """For IPython in a terminal: as ``print`` shows it."""
        printer.text(str(self))
