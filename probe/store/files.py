"""Small files that are replaced atomically."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from ..errors import StoreError, StoreVersionError
from ..model import SCHEMA_VERSION
from . import checksums, untrusted
from .field_kinds import wrong_field
from .layout import RUN_FILE
from .new_files import open_new

if TYPE_CHECKING:
    import numpy.typing as npt

    from .run_fields import RunFields

JSON_BYTES = 4 << 20  # kilobytes; with a long config some more
NPZ_BYTES = 64 << 20
INFLATED_BYTES = 256 << 20
_ZIP_DIRECTORY_BYTES = 1 << 20
_PLACE = "place"  # an array of an npz file: where it belongs
_ZIP_END = struct.Struct("<4s4H2IH")  # of a file without a comment, as ours are


@contextlib.contextmanager
def _replacing(path: Path, *, sync: bool) -> Iterator[IO[bytes]]:
    """A file that replaces ``path`` when the block ends without an exception."""
    if path.name in ("", ".."):  # "/" and "." have none
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = temporary_beside(path)
    try:
        with open_new(temporary) as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_json(
    path: Path, value: Any, *, sync: bool = False, compact: bool = False, checked: bool = False
) -> None:
    """Replace ``path`` atomically.

    Args:
        path: the file.
        value: an object or a list.
        sync: it is on disk when this returns.
        compact: many times faster and harder to read.
        checked: with a checksum as its last entry, which :func:`read_json` takes off again.

    Raises:
        OSError: no space, no right, no directory; the old file stays whole.
    """
    if isinstance(value, dict) and checksums.KEY in value:  # of what it was before
        value = {key: item for key, item in value.items() if key != checksums.KEY}
    with _replacing(path, sync=sync) as file:
        if checked:
            file.write(checksums.with_checksum(value, path.name, compact=compact))
        else:
            file.write(json.dumps(value, indent=None if compact else 1).encode() + b"\n")


def create_json(path: Path, value: Any) -> bool:
    """:func:`create_bytes` of a JSON value with its checksum. Raises OSError."""
    return create_bytes(path, checksums.with_checksum(value, path.name, compact=False))


def create_bytes(path: Path, content: bytes) -> bool:
    """Write ``path`` whole unless it exists; False if another process was first. Raises OSError."""
    temporary = temporary_beside(path)
    try:
        with open_new(temporary) as file:
            file.write(content)
        os.link(temporary, path)  # atomic, with its content
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return True


def write_bytes(path: Path, content: bytes) -> None:
    """Replace ``path`` atomically.

    Raises:
        OSError: no space, no right, no directory; the old file stays whole.
    """
    with _replacing(path, sync=False) as file:
        file.write(content)


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Replace ``path`` (npz) atomically; it is on disk when this returns. Raises OSError.

    Its name goes along: a sound file in another one's place is damage, too.
    """
    import numpy as np

    named = {_PLACE: np.array(_place_of(path))}
    with _replacing(path, sync=True) as file:
        np.savez_compressed(file, allow_pickle=False, **dict(arrays), **named)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]] | None:
    """The arrays of an npz file; None if it is missing, damaged, or inflates beyond any of ours."""
    import numpy as np

    try:
        with untrusted.opened(path, NPZ_BYTES) as file:
            if not _inflates_within_bounds(file):
                return None
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        place = str(arrays.pop(_PLACE, _place_of(path)))  # older files have none
        return arrays if place == _place_of(path) else None
    except Exception:  # zipfile, zlib and numpy have a dozen kinds for damaged bytes
        return None


def _place_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _inflates_within_bounds(file: IO[bytes]) -> bool:
    """Whether the directory of a zip file is short, and what it says of its members' sizes too.

    No more of a member than that size is ever inflated.
    """
    import zipfile

    file.seek(-_ZIP_END.size, os.SEEK_END)
    magic, *_, directory_bytes, _, _ = _ZIP_END.unpack(file.read(_ZIP_END.size))
    if magic != b"PK\5\6" or directory_bytes > _ZIP_DIRECTORY_BYTES:
        return False
    with zipfile.ZipFile(file) as stored:
        inflated = sum(member.file_size for member in stored.infolist())
    file.seek(0)
    return inflated <= INFLATED_BYTES


def temporary_beside(path: Path) -> Path:
    """A unique name in the same directory; importing ``tempfile`` for it would cost 3 ms."""
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")


def read_json(
    path: Path, *, owned: bool = True, damaged: Callable[[Path], None] = lambda _: None
) -> Any:
    """The content of ``path``; None if it is missing, damaged, or not to be trusted.

    Args:
        owned: as of :func:`untrusted.opened`.
        damaged: hears of a file that is not JSON, or not what was written.
    """
    try:
        content = untrusted.read_regular(path, JSON_BYTES, owned=owned)
    except OSError:
        return None
    try:
        return checksums.without_checksum(untrusted.parsed(content), path.name, content)
    except ValueError:
        damaged(path)
        return None


def read_fields(
    path: Path, *, damaged: Callable[[Path], None] = lambda _: None
) -> RunFields | None:
    """A run.json or node.json as it stands; None if it is missing, damaged, or not to be trusted.

    Args:
        path: the file.
        damaged: hears of a file that is not JSON, not an object, or not what was written.
    """
    value = read_json(path, damaged=damaged)
    if isinstance(value, dict):
        return cast("RunFields", value)
    if value is not None:
        damaged(path)
    return None


def read_run_file(run: Path) -> RunFields:
    """Read run.json of a run directory.

    Raises:
        StoreError: missing or unreadable.
        StoreVersionError: written by a newer version.
    """
    path = run / RUN_FILE
    try:
        content = untrusted.read_regular(path, JSON_BYTES)
    except FileNotFoundError:
        raise StoreError(f"{run} is not a run directory: it has no {RUN_FILE}") from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None
    try:
        value = untrusted.parsed(content)
        schema = int(value["schema"])
    except (ValueError, KeyError, TypeError, OverflowError):
        raise StoreError(
            f"{path} is damaged: it is not the JSON of a run; restore it or remove {run}"
        ) from None
    if schema > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{run} was written by a newer phasewatt (schema {schema}, this one reads up to "
            f"{SCHEMA_VERSION}): upgrade with `pip install -U phasewatt`"
        )
    try:
        value = checksums.without_checksum(value, RUN_FILE)
    except checksums.ChecksumError:
        raise StoreError(
            f"{path} is damaged: its checksum does not match; restore it, or take out its line "
            f'"{checksums.KEY}" to read it as it is'
        ) from None
    if wrong := wrong_field(value):
        raise StoreError(
            f"{path} is damaged: {wrong!r} is missing or not what it should be; restore it or "
            f"remove {run}"
        )
    return cast("RunFields", value)
