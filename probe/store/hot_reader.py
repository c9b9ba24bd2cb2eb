"""Whole batches of a hot segment, from where the last look ended.

A batch whose checksum does not match is left out, and so is one that cannot be read; the next whole
one is looked for. What is torn at the end is no damage: its writer was killed, or writes just now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from . import segment_checksums
from .checksums import ChecksumError

# What reading a damaged file raises; a buffer that says that it is huge is a MemoryError.
UNREADABLE = (OSError, ValueError, MemoryError, pa.ArrowException)
_BEGIN = b"\xff\xff\xff\xff"  # of each message, at a multiple of eight
_SEARCHED = 32 << 20  # bytes behind a damaged message; a hot segment has 16 MiB


@dataclass(slots=True)
class Place:
    """How far a hot segment has been read; ``schema`` is the message that it begins with."""

    offset: int = 0
    schema: bytes = b""


def whole_batches(
    source: pa.NativeFile, name: str, place: Place, damaged: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    """Batches from ``place`` on, which moves along.

    Args:
        source: the file.
        name: its stem.
        place: where to begin.
        damaged: called for what is neither whole nor a torn end.
    """
    size = source.size()
    source.seek(place.offset)
    while place.offset < size:
        try:
            message = pa.ipc.read_message(source)
            end = source.tell()
            batch = _batch(message, name, place)
        except EOFError:
            if place.offset + len(_BEGIN) * 2 < size:  # else the writer has closed it
                damaged()
            return
        except ChecksumError:
            damaged()
            place.offset = end
            continue
        except UNREADABLE as error:
            after = _next_whole(source, name, place, size)
            if after is None:
                if not _is_torn(source, place, error):
                    damaged()
                return
            damaged()
            place.offset = after
            source.seek(after)
            continue
        place.offset = end
        if batch is not None:
            yield batch


def _batch(message: pa.Message, name: str, place: Place) -> pa.RecordBatch | None:
    """The batch of a message; None if it is the schema, which is remembered."""
    content = message.serialize().to_pybytes()
    if message.type == "schema":
        place.schema = content
        return None
    stream = pa.ipc.open_stream(pa.py_buffer(place.schema + content))
    batch, about = stream.read_next_batch_with_custom_metadata()
    said = (about or {}).get(segment_checksums.KEY)
    if said is not None and said.decode() != segment_checksums.of_batch(batch, name):
        raise ChecksumError("a batch is damaged")
    return batch


def _is_torn(source: pa.NativeFile, place: Place, error: BaseException) -> bool:
    """Whether a message only lacks its end, as far as it can be told from damage."""
    source.seek(place.offset)
    begin: bytes = source.read(2 * len(_BEGIN))  # with the length of what follows
    short = len(begin) < 2 * len(_BEGIN)
    return _BEGIN.startswith(begin[: len(_BEGIN)]) and (short or "Expected to" in str(error))


def _next_whole(source: pa.NativeFile, name: str, place: Place, size: int) -> int | None:
    """Where the next batch that its checksum vouches for begins; None if there is none."""
    begin = place.offset + 8
    if not place.schema or begin >= size:
        return None
    source.seek(begin)
    content: bytes = source.read(min(size - begin, _SEARCHED))
    at = content.find(_BEGIN)
    while at >= 0:
        if (begin + at) % 8 == 0 and _is_whole(pa.py_buffer(content).slice(at), name, place):
            return begin + at
        at = content.find(_BEGIN, at + 1)
    return None


def _is_whole(content: pa.Buffer, name: str, place: Place) -> bool:
    try:
        message = pa.ipc.read_message(content)
        stream = pa.ipc.open_stream(pa.py_buffer(place.schema + message.serialize().to_pybytes()))
        batch, about = stream.read_next_batch_with_custom_metadata()
        said = (about or {})[segment_checksums.KEY].decode()
        return bool(said == segment_checksums.of_batch(batch, name))
    except (EOFError, StopIteration, KeyError, UnicodeDecodeError, *UNREADABLE):
        return False
