"""CIFAR-10 from a folder on disk, or scikit-learn's digits at the same size.

CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html) as the python batches, the binary batches, or
either archive. The python batches are pickles: only arrays are let out of them.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from optimizers.errors import DataProblem

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
MEAN, SPREAD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Images(NamedTuple):
    """uint8 pixels (n, 3, 32, 32) and labels (n,), to train on and to test with."""

    name: str
    train: tuple[torch.Tensor, torch.Tensor]
    test: tuple[torch.Tensor, torch.Tensor]


def load(folder: str | None, *, checked: bool = True) -> Images:
    """CIFAR-10 under ``folder``; the digits without one. Raises DataProblem."""
    if folder is None:
        return digits()
    root = Path(folder)
    if not root.exists():
        raise DataProblem(f"--data {root}: there is no such folder")
    places = [root, root / "cifar-10-batches-bin", root / "cifar-10-batches-py"]
    for place in places:
        for names, read in ((BINARY, _binary), (PYTHON, _pickled)):
            if (place / names[0]).is_file():
                return _split([read(name, _bytes(place / name, checked)) for name in names])
    for archive in (root, root / "cifar-10-binary.tar.gz", root / "cifar-10-python.tar.gz"):
        if archive.is_file():
            return _archive(archive, checked)
    raise DataProblem(
        f"--data {root} holds no CIFAR-10: put cifar-10-binary.tar.gz or "
        "cifar-10-batches-bin/ there"
    )


def digits() -> Images:
    """1,797 handwritten digits that ship with scikit-learn, as 32 × 32 in three equal colours."""
    from sklearn.datasets import load_digits

    handwritten = load_digits()
    small = torch.tensor(handwritten.images, dtype=torch.float32).unsqueeze(1) * (255 / 16)
    large = torch.nn.functional.interpolate(small, size=32, mode="bilinear", align_corners=False)
    pixels = large.round().to(torch.uint8).expand(-1, 3, -1, -1).contiguous()
    labels = torch.tensor(handwritten.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1500], order[1500:]
    return Images(
        "scikit-learn digits at 32 × 32",
        (pixels[train], labels[train]),
        (pixels[test], labels[test]),
    )


class Augmented(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Normalised; for training moved by up to 4 pixels and mirrored."""

    def __init__(self, images: tuple[torch.Tensor, torch.Tensor], *, train: bool, mirror: bool):
        pixels, self.labels = images
        mean, spread = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, SPREAD))
        self.pixels = (pixels / 255 - mean) / spread
        self._train, self._mirror = train, mirror

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = self.pixels[place]
        if self._train:
            padded = torch.nn.functional.pad(image, (4, 4, 4, 4))
            down, right, flip = torch.randint(0, 9, (3,)).tolist()
            image = padded[:, down : down + 32, right : right + 32]
            if self._mirror and flip % 2:
                image = image.flip(2)
        return image, self.labels[place]


def _bytes(path: Path, checked: bool) -> bytes:
    if not path.is_file():
        raise DataProblem(f"{path} is missing: unpack the archive again")
    data = path.read_bytes()
    _check(path.name, data, checked)
    return data


def _check(name: str, data: bytes, checked: bool) -> None:
    wanted = MD5.get(name)
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if checked and wanted is not None and digest != wanted:
        raise DataProblem(
            f"{name} has md5 {digest}, not {wanted}: download it again, or say "
            "--unchecked if it is meant to differ"
        )


def _archive(path: Path, checked: bool) -> Images:
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


def _split(parts: list[tuple[np.ndarray, np.ndarray]]) -> Images:
    tensors = []
    for pixels, labels in parts:
        if pixels.ndim != 2 or pixels.shape[1] != ROW - 1 or pixels.dtype != np.uint8:
            raise DataProblem(f"a batch has pixels of shape {pixels.shape}, not (n, {ROW - 1:,})")
        if len(labels) != len(pixels) or not len(labels) or labels.max() > 9 or labels.min() < 0:
            raise DataProblem("a batch has labels that do not fit its images")
        tensors.append(
            (torch.tensor(pixels.reshape(-1, 3, 32, 32)), torch.tensor(labels.astype(np.int64)))
        )
    train = tuple(torch.cat([part[i] for part in tensors[:-1]]) for i in range(2))
    return Images("CIFAR-10", (train[0], train[1]), tensors[-1])
