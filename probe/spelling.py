"""The name that a mistyped word was perhaps meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """``"; did you mean 'report'?"``, or nothing where no name is close."""
    from difflib import get_close_matches  # only who mistypes pays for it

    close = get_close_matches(word, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def meant_or_all(word: str, names: Iterable[str]) -> str:
    """The name that was perhaps meant, else all there are."""
    there = list(names)
    return did_you_mean(word, there) or f" (there are {', '.join(there) or 'none'})"
