"""Text for a terminal: what it would obey (colours, titles, the bell) is shown as a character."""

from __future__ import annotations

_CONTROLS = (*range(32), *range(127, 160))
_SHOWN = dict.fromkeys(_CONTROLS, "�") | {ord(space): " " for space in "\t\n\r"}


def printable(text: str) -> str:
    """One line of the text, without control characters; as long as before."""
    return text.translate(_SHOWN)
