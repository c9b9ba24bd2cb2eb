"""Images of 32 × 32 from disk, as people have them, or scikit-learn's digits at the same size.

CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html) in its own files (:mod:`cifar10_files`), a
folder of images, or arrays of numpy (:mod:`image_files`). Nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from cifar10_files import Split, official
from image_files import CLASSES, arrays, pictures

from optimizers.errors import DataProblem

MEAN, SPREAD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
WHERE = (
    "CIFAR-10 is at https://www.cs.toronto.edu/~kriz/cifar.html: put its cifar-10-binary.tar.gz "
    "there (or a folder for each class, or an .npz)"
)


class Images(NamedTuple):
    """uint8 pixels (n, 3, 32, 32) and labels (n,), to train on and to test with.

    ``note`` says what is not as published.
    """

    name: str
    train: tuple[torch.Tensor, torch.Tensor]
    test: tuple[torch.Tensor, torch.Tensor]
    classes: int = 10
    note: str = ""


def load(folder: str | None, *, checked: bool = True) -> Images:
    """The images under ``folder``; the digits without one.

    Args:
        folder: or a file: an archive of CIFAR-10, an .npz.
        checked: compare md5 sums of CIFAR-10's own files; those without a published sum are
            refused.

    Raises:
        DataProblem: there is nothing that can be read; one line says what would be.
    """
    if folder is None:
        return digits()
    root = Path(folder)
    if not root.exists():
        raise DataProblem(f"--data {root}: there is no such file or folder; {WHERE}")
    splits = official(root, checked=checked)
    if splits is not None:
        note = "" if checked else "CIFAR-10's files, not checked"
        return Images("CIFAR-10", _tensors(splits[0]), _tensors(splits[1]), note=note)
    images = arrays(root) or pictures(root)
    if images is None:
        raise DataProblem(f"--data {root} holds no images; {WHERE}")
    looks_like = "CIFAR-10's classes" if images.names == CLASSES else root.stem
    return Images(
        f"{looks_like} ({images.form})",
        _tensors(images.train),
        _tensors(images.test),
        len(images.names),
        f"not checked: no published sum of {images.form}; {images.rule}",
    )


def _tensors(split: Split) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(split[0]), torch.tensor(split[1])


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
