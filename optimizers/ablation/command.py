"""``probe ablate``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from probe.store.files import write_json

from ..stack_text import split
from . import Ablation, Design, analyse
from .text import render


def ablate(options: argparse.Namespace) -> int:
    """Run or continue an ablation and print its result. Raises ProbeError."""
    folder = Path(options.dir or "runs/ablation")
    if options.words or options.techniques:
        words = options.words[1:] if options.words[:1] == ["--"] else options.words
        names = split(options.techniques or "", ",")
        ablation = Ablation(folder, Design.of(options.design, names, options.blocks), words)
    else:
        ablation = Ablation.open(folder)
    ablation.run(lambda line: print(line, file=sys.stderr, flush=True))
    result = analyse(ablation)
    as_json = result.to_dict()
    write_json(folder / "result.json", as_json)  # for `probe tables`
    print(json.dumps(as_json, indent=1, allow_nan=False) if options.json else render(result))
    return 0
