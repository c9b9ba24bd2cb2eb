"""WikiText-2 from a folder on disk, or the source of Python's standard library; as token ids."""

from __future__ import annotations

import math
import sysconfig
from pathlib import Path
from typing import NamedTuple

import torch

from optimizers.errors import DataProblem

LEFT_OUT = 4  # of 40 standard-library files, for validation


class Text(NamedTuple):
    """Token ids to train on and to validate with.

    ``words`` is how many words the validation text has: losses of different tokenisations compare
    only as nats per word. None for a text without published losses.
    """

    name: str
    train: torch.Tensor
    valid: torch.Tensor
    vocabulary: int
    tokens: str
    words: int | None


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
    """WikiText-2 under ``folder``; the standard library without one.

    Args:
        bpe: folder with GPT-2's vocab.json and merges.txt; without it tokens are bytes.

    Raises:
        DataProblem: nothing there that can be read.
    """
    if folder is None:
        name, train, valid, words = "Python standard library", *_stdlib(), None
    else:
        name, train, valid = "WikiText-2", *_wikitext(Path(folder))
        words = len(valid.split())
    if not train.strip() or not valid.strip():
        raise DataProblem(f"{name}: the text is empty")
    if bpe is None:
        encode, vocabulary, tokens = (lambda text: list(text.encode())), 256, "bytes"
    else:
        encode, vocabulary, tokens = (*_bpe(Path(bpe)), "GPT-2 BPE")
    kind = torch.uint8 if vocabulary <= 256 else torch.int32
    return Text(
        name,
        torch.tensor(encode(train), dtype=kind),
        torch.tensor(encode(valid), dtype=kind),
        vocabulary,
        tokens,
        words,
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


def _stdlib() -> tuple[str, str]:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    parts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    train = [part for i, part in enumerate(parts) if i % 40 >= LEFT_OUT]
    valid = [part for i, part in enumerate(parts) if i % 40 < LEFT_OUT]
    return "\n".join(train), "\n".join(valid)


def _wikitext(root: Path) -> tuple[str, str]:
    if not root.is_dir():
        raise DataProblem(f"--data {root}: there is no such folder")
    texts = []
    for part, other in (("train", "train"), ("valid", "validation")):
        files = [
            f
            for pattern in (
                f"wiki.{part}.tokens",
                f"wiki.{part}.raw",
                f"{other}*.parquet",
                f"*{other}*.parquet",
            )
            for f in sorted(root.rglob(pattern))
        ]
        if not files:
            raise DataProblem(
                f"--data {root} holds no wiki.{part}.tokens, wiki.{part}.raw or {other}….parquet"
            )
        texts.append(_read(files[0]))
    return texts[0], texts[1]


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
