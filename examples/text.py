"""WikiText-2 or any text from disk, or the source of Python's standard library; as token ids.

WikiText-2 (https://huggingface.co/datasets/Salesforce/wikitext) as tokens, raw text or parquet.
Nothing is downloaded.
"""

from __future__ import annotations

import math
import sysconfig
from pathlib import Path
from typing import NamedTuple

import torch

from optimizers.errors import DataProblem

LEFT_OUT = 4  # of 40 standard-library files, for validation
VALIDATION = 0.1  # of a single file, its end
OFFICIAL = ("wiki.{}.tokens", "wiki.{}.raw")
WHERE = (
    "WikiText-2 is at https://huggingface.co/datasets/Salesforce/wikitext: put "
    "wikitext-2-raw-v1's parquet files, or wiki.train.raw and wiki.valid.raw, there, or train.txt "
    "and valid.txt of your own"
)


class Text(NamedTuple):
    """Token ids to train on and to validate with.

    ``words`` is how many words the validation text has: losses of different tokenisations compare
    only as nats per word. None for a text without published losses. ``note`` says how a text was
    divided.
    """

    name: str
    train: torch.Tensor
    valid: torch.Tensor
    vocabulary: int
    tokens: str
    words: int | None
    note: str = ""


class Parts(NamedTuple):
    """Text to train on and to validate with; ``is_official``: WikiText-2 as published."""

    name: str
    train: str
    valid: str
    is_official: bool = False
    note: str = ""


class Windows(torch.utils.data.Dataset[torch.Tensor]):
    """Pieces of ``length`` + 1 tokens; the last one of a piece is the next one's first."""

    def __init__(self, ids: torch.Tensor, length: int):
        self.ids, self.length = ids, length
        if len(ids) <= length:
            raise DataProblem(f"the text has {len(ids)} tokens, a window is {length}")

    def __len__(self) -> int:
        return (len(self.ids) - 1) // self.length

    def __getitem__(self, place: int) -> torch.Tensor:
        begin = place * self.length
        return self.ids[begin : begin + self.length + 1].long()


def load(folder: str | None, bpe: str | None = None) -> Text:
    """The text under ``folder``; the standard library without one.

    Args:
        folder: or a single file.
        bpe: folder with GPT-2's vocab.json and merges.txt; without it tokens are bytes.

    Raises:
        DataProblem: nothing there that can be read.
    """
    parts = _stdlib() if folder is None else _from_disk(Path(folder))
    if not parts.train.strip() or not parts.valid.strip():
        raise DataProblem(f"{parts.name}: the text is empty")
    if bpe is None:
        encode, vocabulary, tokens = (lambda text: list(text.encode())), 256, "bytes"
    else:
        encode, vocabulary, tokens = (*_bpe(Path(bpe)), "GPT-2 BPE")
    kind = torch.uint8 if vocabulary <= 256 else torch.int32
    return Text(
        parts.name,
        torch.tensor(encode(parts.train), dtype=kind),
        torch.tensor(encode(parts.valid), dtype=kind),
        vocabulary,
        tokens,
        len(parts.valid.split()) if parts.is_official else None,
        parts.note,
    )


def perplexity(nats_per_token: float, text: Text) -> str:
    """The perplexity in words, and whether it can be compared with published ones."""
    unit = "byte" if text.tokens == "bytes" else "token"
    per_token = f"perplexity {math.exp(min(nats_per_token, 700)):.2f} per {unit}"
    if text.words is None:
        return f"{per_token}, which compares only with runs on the same text"
    per_word = nats_per_token * len(text.valid) / text.words
    return (
        f"{per_token}, {math.exp(min(per_word, 700)):.2f} per word: only the latter compares with "
        "published WikiText-2 perplexities, and only if the text was not changed"
    )


def _stdlib() -> Parts:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    parts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    train = [part for i, part in enumerate(parts) if i % 40 >= LEFT_OUT]
    valid = [part for i, part in enumerate(parts) if i % 40 < LEFT_OUT]
    return Parts("Python standard library", "\n".join(train), "\n".join(valid))


def _from_disk(root: Path) -> Parts:
    if root.is_file():
        return _divided(root)
    if not root.is_dir():
        raise DataProblem(f"--data {root}: there is no such file or folder; {WHERE}")
    return _official(root) or _plain(root)


def _official(root: Path) -> Parts | None:
    """WikiText-2's own files; None if there is none of them."""
    files = [
        next(
            (
                file
                for pattern in (
                    *(name.format(part) for name in OFFICIAL),
                    f"{other}*.parquet",
                    f"*{other}*.parquet",
                )
                for file in sorted(root.rglob(pattern))
            ),
            None,
        )
        for part, other in (("train", "train"), ("valid", "validation"))
    ]
    if files[0] is None and files[1] is None:
        return None
    if files[0] is None or files[1] is None:
        missing = "train" if files[0] is None else "valid"
        raise DataProblem(f"--data {root} holds no wiki.{missing}.tokens or .raw; {WHERE}")
    return Parts("WikiText-2", _read(files[0]), _read(files[1]), is_official=True)


def _plain(root: Path) -> Parts:
    """Text files by their names, or the only one."""
    by_name = {
        part: file
        for part in ("train", "valid", "validation", "test")
        for suffix in (".txt", ".raw", ".tokens")
        if (file := root / f"{part}{suffix}").is_file()
    }
    valid = by_name.get("valid") or by_name.get("validation")
    test, train = by_name.get("test"), by_name.get("train")
    if train is not None and (checked_on := valid or test):
        note = f"trained on {train.name}, validated on {checked_on.name}"
        return Parts(root.resolve().name, _read(train), _read(checked_on), note=note)
    if train is None and valid is not None and test is not None:
        return Parts(
            f"{root.resolve().name}: {valid.name}, {test.name}",
            _read(valid),
            _read(test),
            note=f"there is no train.txt: trained on {valid.name}, validated on {test.name}; its "
            "perplexity compares with nothing published",
        )
    files = sorted(root.glob("*.txt"))
    if len(files) == 1:
        return _divided(files[0])
    raise DataProblem(f"--data {root} holds no text that says what to train on; {WHERE}")


def _divided(file: Path) -> Parts:
    """Trained on the first nine tenths of a file's lines, validated on the last."""
    lines = _read(file).splitlines(keepends=True)
    last = max(1, round(VALIDATION * len(lines)))
    return Parts(
        file.name,
        "".join(lines[:-last]),
        "".join(lines[-last:]),
        note=f"trained on the first {len(lines) - last:,} lines of {file.name}, validated on the "
        f"last {last:,}",
    )


def _read(path: Path) -> str:
    try:
        if path.suffix != ".parquet":
            return path.read_text(encoding="utf-8")
        import pyarrow.parquet as pq

        return "".join(pq.read_table(path, columns=["text"])["text"].to_pylist())
    except Exception as error:
        raise DataProblem(f"{path} cannot be read: {' '.join(str(error).split())[:120]}") from None


def _bpe(folder: Path):
    files = folder / "vocab.json", folder / "merges.txt"
    for file in files:
        if not file.is_file():
            raise DataProblem(f"--bpe {folder}: {file.name} is missing")
    from tokenizers import ByteLevelBPETokenizer

    try:
        tokenizer = ByteLevelBPETokenizer(str(files[0]), str(files[1]))
    except Exception as error:
        raise DataProblem(f"--bpe {folder}: {' '.join(str(error).split())[:120]}") from None
    return (lambda text: tokenizer.encode(text).ids), tokenizer.get_vocab_size()
