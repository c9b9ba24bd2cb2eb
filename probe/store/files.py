"""Small files that are replaced atomically."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..errors import StoreError, StoreVersionError
from ..model import SCHEMA_VERSION
from .layout import RUN_FILE

if TYPE_CHECKING:
    import numpy.typing as npt


@contextlib.contextmanager
def _replacing(path: Path, *, sync: bool) -> Iterator[IO[bytes]]:
    """A file that replaces ``path`` when the block ends without an exception."""
    temporary = temporary_beside(path)
    try:
        with open(temporary, "xb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_json(path: Path, value: Any, *, sync: bool = False, compact: bool = False) -> None:
    """Replace ``path`` atomically; ``compact`` is many times faster and harder to read.

    Raises:
        OSError: no space, no right, no directory; the old file stays whole.
    """
    with _replacing(path, sync=sync) as file:
        file.write(json.dumps(value, indent=None if compact else 1).encode() + b"\n")


def create_json(path: Path, value: Any) -> bool:
    """:func:`create_bytes` of a JSON value. Raises OSError."""
    return create_bytes(path, json.dumps(value, indent=1).encode() + b"\n")


def create_bytes(path: Path, content: bytes) -> bool:
    """Write ``path`` whole unless it exists; False if another process was first. Raises OSError."""
    temporary = temporary_beside(path)
    try:
        temporary.write_bytes(content)
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
    """Replace ``path`` (npz) atomically; it is on disk when this returns. Raises OSError."""
    import numpy as np

    with _replacing(path, sync=True) as file:
        np.savez_compressed(file, allow_pickle=False, **dict(arrays))


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]] | None:
    """The arrays of an npz file; None if it is missing or damaged."""
    import zipfile

    import numpy as np

    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def temporary_beside(path: Path) -> Path:
    """A unique name in the same directory; importing ``tempfile`` for it would cost 3 ms."""
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")


def read_json(path: Path) -> Any:
    """The content of ``path``; None if it is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def read_run_file(run: Path) -> dict[str, Any]:
    """Read run.json of a run directory.

    Raises:
        StoreError: missing or unreadable.
        StoreVersionError: written by a newer version.
    """
    path = run / RUN_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StoreError(f"{run} is not a run directory: it has no {RUN_FILE}") from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None
    try:
        value = json.loads(text)
        schema = int(value["schema"])
    except (ValueError, KeyError, TypeError):
        raise StoreError(f"{path} is damaged: it is not the JSON of a run") from None
    if schema > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{run} was written by a newer phasewatt (schema {schema}, this one reads up to "
            f"{SCHEMA_VERSION}): upgrade with `pip install -U phasewatt`"
        )
    return dict(value)
