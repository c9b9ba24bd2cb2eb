"""``probe ablate``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import pkgutil
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path

from probe.errors import UsageError
from probe.spelling import meant_or_all
from probe.store.files import write_json

from . import techniques


def ablate(options: argparse.Namespace) -> int:
    """Run or continue an ablation and print its result. Raises ProbeError."""
    folder = Path(options.dir or "runs/ablation")
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    begins = bool(words or options.techniques)
    if begins:
        check_names(options.techniques or "")
    elif not folder.is_dir():
        raise UsageError(
            f"there is no ablation in {folder} to go on with: begin one with --techniques A,B -- "
            "python train.py --stack {stack} --seed {seed}"
        )
    if importlib.util.find_spec("torch") is None:
        raise UsageError("ablate trains with PyTorch, which is not installed: pip install torch")
    from .ablation import Ablation, Design, analyse  # they import torch, for seconds
    from .ablation.text import render
    from .stack_text import split

    if begins:
        names = split(options.techniques or "", ",")
        ablation = Ablation(folder, Design.of(options.design, names, options.blocks), words)
    else:
        ablation = Ablation.open(folder)
    ablation.run(lambda line: print(line, file=sys.stderr, flush=True))
    result = analyse(ablation)
    as_json = result.to_dict()
    write_json(folder / "result.json", as_json)  # for `probe tables`
    if options.format == "json":
        print(json.dumps(as_json, indent=1, allow_nan=False))
    else:
        print(render(result))
    return 0


def check_names(text: str) -> None:
    """Refuse names of no technique before anything is imported. Raises UsageError."""
    there = [module.name for module in pkgutil.iter_modules(techniques.__path__)]
    there += [entry.name for entry in entry_points(group=techniques.GROUP)]
    for word in re.sub(r"\([^)]*\)", "", text).split(","):
        name = word.partition(":")[0].strip()
        if name and name not in there:
            raise UsageError(f"no technique is called {name!r}{meant_or_all(name, sorted(there))}")
