"""One loop as a script: trains, and writes what it did to a file.

python -m tests.loops.train plain "watch()" truth.json runs
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import torch

import probe
from tests.loops.archetypes import LOOPS
from tests.loops.truth import Truth

WATCH, WATCH_ALL, PROBE_RUN = WAYS = ("watch()", "watch(model, optimizer)", "probe run")


def main(name: str, way: str, truth_file: str, runs: str) -> None:
    torch.manual_seed(0)
    with Truth() as truth:
        loop = LOOPS[name](truth)
        model, optimizer = next(loop)
        watched: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if way != PROBE_RUN:
            passed = (model, optimizer) if way == WATCH_ALL else ()
            watched = probe.watch(*passed, dir=runs, name=name)
        with watched:
            next(loop, None)
    Path(truth_file).write_text(json.dumps(truth.counts().as_json()))


if __name__ == "__main__":
    main(*sys.argv[1:])
