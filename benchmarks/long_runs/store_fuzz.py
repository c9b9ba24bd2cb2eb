"""Stored runs with a damaged file: does the report refuse, warn, or show other figures silently?

    python -m benchmarks.long_runs.store_fuzz [--rounds 2000] [--seed 0]

Each round copies one of the tests' stored runs, damages one of its files (a flipped bit, a
truncation, zeros, or the content of another file) and builds its report. The outcome is
*refused* (a one-line error), *warned*, *same* (figures unchanged), or *silent*: joules, seconds
or steps have changed and the report does not say so. The stored runs are older than checksums,
so their files are first rewritten in today's format, for half of the runs with the segments
still hot (Arrow, not yet sealed). ``--old`` skips the rewriting.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.harness.results import save
from probe.errors import ProbeError
from probe.report.build.report import build
from probe.store import files
from probe.store.node_files import gap_line, read_gaps
from probe.store.segment_reader import read_segment
from probe.store.segments import SegmentWriter, seal_segment
from tests.fixtures.archives import STORED_RUNS, unpack

_FIGURES = ("total", "phases", "sources")

REMAINS = """Known to be silent:
- a truncated hot segment looks like that of a recorder that was killed: its complete batches count,
  and whether there were more cannot be known;
- a flipped bit in the length of a hot segment's last batch, for the same reason;
- in runs without checksums (--old): any damage after which the file can still be parsed."""


def damage(path: Path, chance: random.Random, others: list[Path]) -> str:
    """Damage one file; how."""
    content = bytearray(path.read_bytes())
    way = chance.choice(["bit", "bit", "bit", "cut", "zeros", "swap"])
    if way == "bit" and content:
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8)
    elif way == "cut":
        del content[chance.randrange(len(content) + 1) :]
    elif way == "zeros" and content:
        begin = chance.randrange(len(content))
        content[begin : begin + 64] = bytes(len(content[begin : begin + 64]))
    else:
        content = bytearray(chance.choice(others).read_bytes())
    path.write_bytes(content)
    return way


def write_anew(run: Path, *, hot: bool) -> None:
    """Give a run's files the checksums that a recorder of today gives them.

    Args:
        run: its directory.
        hot: leave its segments hot, as a killed recorder does.
    """
    for path in run.rglob("*"):
        if path.suffix == ".json":
            files.write_json(path, files.read_json(path), checked=True)
        elif path.suffix == ".npz":
            files.write_arrays(path, files.read_arrays(path) or {})
        elif path.name == "gaps.jsonl":
            path.write_bytes(b"".join(map(gap_line, read_gaps(path.parent))))
    segments = {
        path: batches
        for path in [*run.rglob("cold/*.parquet"), *run.rglob("hot/*.arrows")]
        for batches in [list(read_segment(path))]
    }
    for path in segments:
        path.unlink()
    for path, batches in sorted(segments.items(), key=lambda pair: pair[0].stem):
        if not batches:
            continue
        stem = path.stem.rpartition("-")[0]
        writer = SegmentWriter(path.parent.parent, stem, batches[0].schema)
        for batch in batches:
            for begin in range(0, batch.num_rows, 500):
                part = batch.slice(begin, 500)
                writer.write({name: part[name].to_numpy() for name in part.schema.names})
        (written,) = writer.close()
        assert written.stem == path.stem, "segments are numbered from one"
        if not hot and path.suffix == ".parquet":
            seal_segment(written)


def figures(report: dict[str, Any]) -> Any:
    """What a reader of the report would act on."""
    return [report[name] for name in _FIGURES], report["run"]["steps"], report["run"]["duration_s"]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--old", action="store_true", help="runs without checksums")
    args = options.parse_args()
    chance = random.Random(args.seed)
    outcomes: Counter[str] = Counter()
    silent: Counter[str] = Counter()
    uncaught: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        unpack(STORED_RUNS, folder)
        runs = sorted(p.parent for p in (folder / "runs").glob("*/run.json"))
        for place, run in enumerate(runs):
            if not args.old:
                write_anew(run, hot=place % 2 == 1)
        sound = {run: build(run).to_dict() for run in runs}
        for _ in range(args.rounds):
            run = chance.choice(runs)
            copy = folder / "damaged" / run.name
            shutil.copytree(run, copy)
            present = sorted(path for path in copy.rglob("*") if path.is_file())
            path = chance.choice(present)
            way = damage(path, chance, present)
            kind = (
                f"{way} in {path.relative_to(copy)}"
                if args.rounds < 500
                else f"{way} in {path.suffix or path.name}"
            )
            try:
                report = build(copy).to_dict()
            except ProbeError as error:
                outcomes["refused" if "\n" not in str(error) else "several lines"] += 1
            except Exception as error:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                outcomes["uncaught"] += 1
                uncaught[f"{type(error).__name__} in {frame.name}: {kind}"] += 1
            else:
                same = figures(report) == figures(sound[run])
                warned = set(report["warnings"]) - set(sound[run]["warnings"])
                outcome = "same" if same else "warned" if warned else "silent"
                outcomes[outcome] += 1
                if outcome == "silent":
                    silent[kind] += 1
            shutil.rmtree(copy)
    print(", ".join(f"{name} {count}" for name, count in outcomes.most_common()))
    for title, counts in (("uncaught", uncaught), ("silent", silent)):
        for line, count in counts.most_common(12):
            print(f"  {title}: {count} × {line}")
    if silent:
        print(REMAINS)
    save("store_fuzz", {"rounds": args.rounds, **outcomes})
    sys.exit(bool(outcomes["uncaught"]))


if __name__ == "__main__":
    main()
