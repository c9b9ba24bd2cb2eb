"""``probe card``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from probe.errors import UsageError
from probe.store.layout import CARDS_FILE

from ..command import check_names

if TYPE_CHECKING:
    from .trials import CardTrials

_BEGIN = "begin with probe card TECHNIQUE -- python train.py --stack {stack} --seed {seed}"


def card(options: argparse.Namespace) -> int:
    """Train what is missing, write the cards, print a line for each. Raises ProbeError."""
    folder = Path(options.dir or "runs/cards")
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    check_names(",".join(options.techniques))
    if words and not options.techniques:
        raise UsageError(f"name the techniques: {_BEGIN}")
    if not words and not (folder / CARDS_FILE).is_file():
        raise UsageError(f"there are no cards in {folder}: {_BEGIN}")
    if importlib.util.find_spec("torch") is None:
        raise UsageError("card trains with PyTorch, which is not installed: pip install torch")
    from .analysis import analyse  # they import torch, for seconds
    from .page import index, page

    trials = _trials(folder, options, words)
    trials.run(lambda line: print(line, file=sys.stderr, flush=True))
    pages = analyse(trials)
    texts = {each.page: page(pages, each) for each in pages.cards.cards}
    texts["cards/README.md"] = index(pages.cards)
    _write(folder, texts)
    if options.format == "json":
        print(json.dumps(pages.cards.to_dict(), indent=1, allow_nan=False))
    else:
        print(texts["cards/README.md"], end="")
    print(f"wrote {len(texts)} pages in {folder / 'cards'}", file=sys.stderr)
    return 0


def _trials(folder: Path, options: argparse.Namespace, words: Sequence[str]) -> CardTrials:
    """Of what the command line asks, else of what the folder holds. Raises UsageError."""
    from .design import CardDesign
    from .trials import CardTrials

    if words:
        seeds = 5 if options.seeds is None else options.seeds
        design = CardDesign.asked(options.techniques, seeds, options.base or "baseline")
        return CardTrials(folder, design, words)
    trials = CardTrials.open(folder)
    stored = trials.design
    same = CardDesign.asked(
        options.techniques or stored.techniques,
        options.seeds or stored.blocks,
        options.base or stored.base,
    )
    if same != stored:
        raise UsageError(
            f"{folder} holds cards of {', '.join(stored.techniques)} on {stored.base}, "
            f"{stored.blocks} seeds: give another --dir and a command to train others"
        )
    return trials


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Raises UsageError."""
    try:
        (folder / "cards").mkdir(exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None
