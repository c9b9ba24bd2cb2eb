"""Checksums of JSON files, as their last entry: a flipped bit must not become another figure.

A checksum begins with the file's name, so that a file in another one's place does not pass either.
What has none is older, or was edited by hand and lost it, and passes.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

KEY = "crc32"


class ChecksumError(ValueError):
    """The content is not what was written."""


def with_checksum(value: Any, name: str, *, compact: bool) -> bytes:
    """A JSON file of an object or a list whose last entry is the checksum of all others."""
    plain = json.dumps(value)
    mark = {KEY: _of(plain.encode(), name)}
    if compact:
        body = plain[:-1] + (", " if value else "")
        text = body + (json.dumps(mark)[1:] if isinstance(value, dict) else json.dumps(mark) + "]")
    else:
        marked = {**value, **mark} if isinstance(value, dict) else [*value, mark]
        text = json.dumps(marked, indent=1)
    return text.encode() + b"\n"


def without_checksum(value: Any, name: str, content: bytes = b"") -> Any:
    """What :func:`with_checksum` was given.

    Args:
        value: what the file holds.
        name: the file's.
        content: the file's bytes, for which a compact object need not be written again.

    Raises:
        ChecksumError: it was something else.
    """
    if isinstance(value, dict) and KEY in value:
        said = value.pop(KEY)
    elif isinstance(value, list) and value and isinstance(value[-1], dict) and len(value[-1]) == 1:
        if KEY not in value[-1]:
            return value
        said = value.pop()[KEY]
    else:
        return value
    if said != _of_compact(content, name) and said != _of(json.dumps(value).encode(), name):
        raise ChecksumError("its checksum does not match")
    return value


def _of_compact(content: bytes, name: str) -> str | None:
    """The checksum of a compact object by its bytes; None if they are no such file."""
    plain, mark, _ = content.rpartition(b', "' + KEY.encode())
    if not mark:
        return None
    computed = _of(plain + b"}", name)
    end = json.dumps({KEY: computed})[1:].encode() + b"\n"
    return computed if content == plain + b", " + end else None


def _of(content: bytes, name: str) -> str:
    return f"{zlib.crc32(content, zlib.crc32(name.encode())):08x}"
