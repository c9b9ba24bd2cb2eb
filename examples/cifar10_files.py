"""CIFAR-10's own files: the python batches, the binary batches, or either archive.

The python batches are pickles: only arrays are let out of them.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from optimizers.errors import DataProblem

# As published with the data set, and in the checksums that torchvision carries.
MD5 = {
    "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
    "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
PYTHON = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
BINARY = [f"{name}.bin" for name in PYTHON]
ROW = 1 + 3 * 32 * 32  # label, then red, green and blue planes

Split = tuple[np.ndarray, np.ndarray]  # uint8 pixels (n, 3, 32, 32), int64 labels (n,)


def official(root: Path, *, checked: bool) -> tuple[Split, Split] | None:
    """Images to train on and to test with; None if none of the files is there.

    Raises:
        DataProblem: a file is missing, damaged or not what was published.
    """
    for place in (root, root / "cifar-10-batches-bin", root / "cifar-10-batches-py"):
        for names, read in ((BINARY, _binary), (PYTHON, _pickled)):
            if (place / names[0]).is_file():
                return _split([read(name, _bytes(place / name, checked)) for name in names])
    for archive in (root, root / "cifar-10-binary.tar.gz", root / "cifar-10-python.tar.gz"):
        if archive.is_file() and archive.name.endswith((".tar.gz", ".tgz", ".tar")):
            return _archive(archive, checked)
    return None


def _bytes(path: Path, checked: bool) -> bytes:
    if not path.is_file():
        raise DataProblem(f"{path} is missing: unpack the archive again")
    data = path.read_bytes()
    _check(path.name, data, checked)
    return data


def _check(name: str, data: bytes, checked: bool) -> None:
    if not checked:
        return
    wanted = MD5.get(name)
    if wanted is None:
        raise DataProblem(
            f"{name} is not checked: there is no published sum of it; say --unchecked to take it "
            "as it is, or give the archive, whose sum is known"
        )
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if digest != wanted:
        raise DataProblem(
            f"{name} has md5 {digest}, not {wanted}: download it again, or say "
            "--unchecked if it is meant to differ"
        )


def _archive(path: Path, checked: bool) -> tuple[Split, Split]:
    data = path.read_bytes()
    _check(path.name, data, checked)
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            members = {Path(member.name).name: member for member in tar.getmembers()}
            names = BINARY if BINARY[0] in members else PYTHON
            missing = [name for name in names if name not in members]
            if missing:
                raise DataProblem(f"{path} has no {missing[0]}: it is not CIFAR-10")
            read = _binary if names is BINARY else _pickled
            files = [tar.extractfile(members[name]) for name in names]
            return _split(
                [
                    read(name, file.read() if file else b"")
                    for name, file in zip(names, files, strict=True)
                ]
            )
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataProblem(f"{path} is damaged ({error}): download it again") from None


def _binary(name: str, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    if not data or len(data) % ROW:
        raise DataProblem(
            f"{name} has {len(data):,} bytes, no multiple of {ROW:,}: "
            "it is truncated, download it again"
        )
    rows = np.frombuffer(data, np.uint8).reshape(-1, ROW)
    return rows[:, 1:], rows[:, 0]


class _Arrays(pickle.Unpickler):
    """Lets nothing out of a pickle but numpy arrays."""

    _ALLOWED = ("_reconstruct", "ndarray", "dtype", "encode", "scalar", "_frombuffer")

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] in ("numpy", "_codecs") and name in self._ALLOWED:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise DataProblem(f"a batch asks for {module}.{name}: that is not CIFAR-10")


def _pickled(name: str, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    try:
        batch = _Arrays(io.BytesIO(data), encoding="bytes").load()
        pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
    except DataProblem:
        raise
    except Exception as error:
        what = type(error).__name__
        raise DataProblem(f"{name} is damaged ({what}): download it again") from None
    return pixels, labels


def _split(parts: list[Split]) -> tuple[Split, Split]:
    checked = []
    for pixels, labels in parts:
        if pixels.ndim != 2 or pixels.shape[1] != ROW - 1 or pixels.dtype != np.uint8:
            raise DataProblem(f"a batch has pixels of shape {pixels.shape}, not (n, {ROW - 1:,})")
        if len(labels) != len(pixels) or not len(labels) or labels.max() > 9 or labels.min() < 0:
            raise DataProblem("a batch has labels that do not fit its images")
        checked.append((pixels.reshape(-1, 3, 32, 32), labels.astype(np.int64)))
    pixels, labels = (np.concatenate(part) for part in zip(*checked[:-1], strict=True))
    return (pixels, labels), checked[-1]
