"""Images of 32 × 32 as people keep them: a folder for each class, or arrays of numpy."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from cifar10_files import Split

from optimizers.errors import DataProblem

SIZE = 32
CLASSES = [
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
]
TEST_EVERY = 6  # of a class without a split, as 10,000 of CIFAR-10's 60,000
RULE = f"every {TEST_EVERY}th image of each class is for testing"
GIVEN = "trained on train, tested on test"
TRAIN, TEST = ("train", "training"), ("test", "val", "valid", "validation")
SUFFIXES = {".png", ".jpg", ".jpeg"}

_PIXELS, _LABELS = ("images", "x", "data", "image"), ("labels", "y", "label", "targets")


class Found(NamedTuple):
    """Images to train on and to test with; ``rule`` says how they were divided."""

    form: str
    names: list[str]
    train: Split
    test: Split
    rule: str


def arrays(root: Path) -> Found | None:
    """An .npz, or train.npz and test.npz in a folder; None if there is none.

    One file holds ``x_train``, ``y_train``, ``x_test``, ``y_test``, or ``images`` and ``labels``.
    Images are uint8, (n, 32, 32, 3), (n, 3, 32, 32) or (n, 3072), or files end to end: ``jpeg``,
    with file i from ``offset[i]`` to ``offset[i + 1]``. ``names`` are those of the classes.

    Raises:
        DataProblem: they cannot be read, or are of another size.
    """
    if root.suffix == ".npz" and root.is_file():
        return _one_file(root)
    files = [_first_file(root, names) for names in (TRAIN, TEST)]
    if not root.is_dir() or files[0] is None:
        alone = sorted(root.glob("*.npz")) if root.is_dir() else []
        return _one_file(alone[0]) if len(alone) == 1 else None
    if files[1] is None:
        return _one_file(files[0])
    stored = [_load(file) for file in files if file is not None]
    splits = [
        _split_of(content, file.name) for content, file in zip(stored, files, strict=True) if file
    ]
    names = _names(stored[0], splits)
    return Found(_form(stored[0]), names, splits[0], splits[1], GIVEN)


def pictures(root: Path) -> Found | None:
    """PNG or JPEG files in a folder for each class, below train and test or not; None without.

    Raises:
        DataProblem: an image cannot be read or is of another size; Pillow is not installed.
    """
    if not root.is_dir():
        return None
    train = next((root / name for name in TRAIN if (root / name).is_dir()), None)
    test = next((root / name for name in TEST if (root / name).is_dir()), None)
    classes = _classes(train or root)
    if not classes:
        return None
    form = "images in folders"
    if train is None or test is None:
        return Found(form, list(classes), *_divided(_decoded(classes, list(classes))), RULE)
    tested = _classes(test)
    if unknown := sorted(tested.keys() - classes.keys()):
        raise DataProblem(f"{test} has a class {unknown[0]!r} that {train} lacks")
    splits = [_decoded(files, list(classes)) for files in (classes, tested)]
    return Found(form, list(classes), splits[0], splits[1], GIVEN)


# -- arrays --------------------------------------------------------------------------------


def _first_file(root: Path, names: Sequence[str]) -> Path | None:
    return next((path for name in names if (path := root / f"{name}.npz").is_file()), None)


def _load(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, BadZipFile, KeyError) as error:
        why = " ".join(str(error).split())[:120]
        raise DataProblem(f"{path} cannot be read as arrays of numpy: {why}") from None


def _one_file(path: Path) -> Found:
    stored = _load(path)
    if "x_train" not in stored:
        split = _split_of(stored, path.name)
        return Found(_form(stored), _names(stored, [split]), *_divided(split), RULE)
    parts = []
    for part in ("train", "test"):
        content = {"images": stored.get(f"x_{part}"), "labels": stored.get(f"y_{part}")}
        parts.append(_split_of({k: v for k, v in content.items() if v is not None}, path.name))
    return Found("arrays", _names(stored, parts), parts[0], parts[1], GIVEN)


def _split_of(stored: dict[str, np.ndarray], name: str) -> Split:
    labels = next((stored[key] for key in _LABELS if key in stored), None)
    if "jpeg" in stored and "offset" in stored:
        pixels = _end_to_end(stored["jpeg"], stored["offset"], name)
    else:
        pixels = next((stored[key] for key in _PIXELS if key in stored), None)
    if pixels is None or labels is None:
        keys = ", ".join(sorted(stored)) or "nothing"
        raise DataProblem(
            f"{name} holds {keys}: it needs images and labels, x_train, y_train, x_test and "
            "y_test, or jpeg, offset and label"
        )
    labels = labels.reshape(-1)
    if len(labels) != len(pixels) or not len(labels):
        raise DataProblem(f"{name} has {len(labels)} labels for {len(pixels)} images")
    if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
        raise DataProblem(f"{name} has labels that are no class numbers ({labels.dtype})")
    return _planes(pixels, name), labels.astype(np.int64)


def _planes(pixels: np.ndarray, name: str) -> np.ndarray:
    """As (n, 3, 32, 32)."""
    count, *shape = pixels.shape
    if pixels.dtype == np.uint8 and tuple(shape) == (SIZE, SIZE, 3):
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    if pixels.dtype == np.uint8 and tuple(shape) in ((3, SIZE, SIZE), (3 * SIZE * SIZE,)):
        return pixels.reshape(count, 3, SIZE, SIZE)
    raise DataProblem(
        f"{name} has images of shape {pixels.shape} and type {pixels.dtype}, not uint8 of "
        f"(n, {SIZE}, {SIZE}, 3), (n, 3, {SIZE}, {SIZE}) or (n, {3 * SIZE * SIZE})"
    )


def _end_to_end(content: np.ndarray, offsets: np.ndarray, name: str) -> np.ndarray:
    ends = offsets.astype(np.int64)
    if len(ends) < 2 or ends[0] < 0 or ends[-1] > len(content) or (np.diff(ends) <= 0).any():
        raise DataProblem(f"{name} has an offset that does not fit its {len(content):,} bytes")
    files = (
        (f"image {place} of {name}", io.BytesIO(content[begin:end].tobytes()))
        for place, (begin, end) in enumerate(pairwise(ends))
    )
    decode = _decoder()
    return np.stack([decode(name, file) for name, file in files])


def _names(stored: dict[str, np.ndarray], splits: Sequence[Split]) -> list[str]:
    """Of the classes: as stored, else their numbers."""
    count = 1 + int(max(labels.max() for _, labels in splits))
    names = [str(name) for name in stored.get("names", np.arange(count))]
    if len(names) < count:
        raise DataProblem(f"there are {len(names)} names of classes and a label {count - 1}")
    return names


def _form(stored: dict[str, np.ndarray]) -> str:
    return "arrays of JPEG files" if "jpeg" in stored else "arrays"


# -- folders -------------------------------------------------------------------------------


def _classes(folder: Path) -> dict[str, list[Path]]:
    files = {
        place.name: sorted(file for file in place.iterdir() if file.suffix.lower() in SUFFIXES)
        for place in sorted(folder.iterdir())
        if place.is_dir()
    }
    return {name: paths for name, paths in files.items() if paths}


def _decoded(files: dict[str, list[Path]], classes: list[str]) -> Split:
    decode = _decoder()
    pixels = [decode(str(path), path) for paths in files.values() for path in paths]
    labels = [classes.index(name) for name, paths in files.items() for _ in paths]
    return np.stack(pixels), np.array(labels, np.int64)


def _divided(split: Split) -> tuple[Split, Split]:
    """Every sixth image of each class, in their order, is for testing."""
    pixels, labels = split
    tests = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        tests[np.flatnonzero(labels == label)[TEST_EVERY - 1 :: TEST_EVERY]] = True
    if not tests.any():
        raise DataProblem(f"no class has {TEST_EVERY} images: too few to test with every sixth")
    return (pixels[~tests], labels[~tests]), (pixels[tests], labels[tests])


def _decoder() -> Callable[[str, Path | io.BytesIO], np.ndarray]:
    """Decodes an image of the right size as (3, 32, 32). Raises DataProblem without Pillow."""
    try:
        from PIL import Image
    except ImportError:
        raise DataProblem("images need Pillow: pip install pillow, or give arrays") from None

    def decode(name: str, file: Path | io.BytesIO) -> np.ndarray:
        try:
            with Image.open(file, formats=("PNG", "JPEG")) as image:
                if image.size == (SIZE, SIZE):
                    return np.asarray(image.convert("RGB")).transpose(2, 0, 1)
                size = "{} × {}".format(*image.size)
        except (OSError, ValueError, SyntaxError) as error:
            why = " ".join(str(error).split())[:120]
            raise DataProblem(f"{name} cannot be read as an image: {why}") from None
        raise DataProblem(f"{name} is {size} pixels, not {SIZE} × {SIZE}: resize the images")

    return decode
