"""Checksums of segments: of a hot one's batches, and of a sealed one's footer.

Pages of Parquet files have their own. Each checksum begins with the segment's name, so that a file
in another one's place does not pass. What has none is older, and passes.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import IO

import pyarrow as pa

from .checksums import ChecksumError

KEY = b"crc32"  # in a batch's metadata
_MARK = b"pwCRC32:"  # before a footer, followed by four bytes
_PARQUET_END = 8  # the footer's length, then "PAR1"


def of_batch(batch: pa.RecordBatch, name: str) -> str:
    """The checksum of a batch of numbers as they are in memory; ``name``: of its segment."""
    checksum = zlib.crc32(name.encode())
    for column in batch.columns:
        checksum = zlib.crc32(column.to_numpy(), checksum)
    return f"{checksum:08x}"


def sign_footer(file: IO[bytes], name: str) -> None:
    """Put a checksum of a closed Parquet file's footer in front of it, where no reader looks.

    The footer says where columns lie and which times they hold; only pages have checksums.

    Args:
        file: open for reading and writing.
        name: of the segment.
    """
    footer = _footer(file)
    if footer is not None:
        file.seek(-len(footer), os.SEEK_END)
        file.write(_MARK + zlib.crc32(footer, zlib.crc32(name.encode())).to_bytes(4, "little"))
        file.write(footer)


def check_footer(file: IO[bytes], path: Path) -> None:
    """Check what :func:`sign_footer` wrote; leaves the file at its begin.

    Raises:
        ChecksumError: the footer is damaged, or is another file's.
    """
    footer = _footer(file)
    size = len(_MARK) + 4
    if footer is not None and file.seek(0, os.SEEK_END) >= len(footer) + size:
        file.seek(-len(footer) - size, os.SEEK_END)
        said = file.read(size)
        checksum = zlib.crc32(footer, zlib.crc32(path.stem.encode()))
        if said.startswith(_MARK) and said[-4:] != checksum.to_bytes(4, "little"):
            raise ChecksumError(f"{path}: the checksum of its footer does not match")
    file.seek(0)


def _footer(file: IO[bytes]) -> bytes | None:
    """The footer, its length and the end mark; None if there is none."""
    size = file.seek(0, os.SEEK_END)
    if size < _PARQUET_END:
        return None
    file.seek(-_PARQUET_END, os.SEEK_END)
    end = file.read(_PARQUET_END)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > min(size - _PARQUET_END, 64 << 20):
        return None
    file.seek(-_PARQUET_END - length, os.SEEK_END)
    return file.read(length) + end
