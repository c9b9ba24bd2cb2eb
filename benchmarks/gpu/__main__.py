"""Ask a card what the notes leave open: `make gpu`.

    python -m benchmarks.gpu [--short] [--stages reads,loads] [--again] [--results DIR]

Each stage takes eight minutes at most and writes a file of its own to
benchmarks/results/gpu-<card>/; a stage whose file is there is not run again, one that failed is.
Reads only: no clock, limit or mode of the card is set, and nothing is fetched over a network.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.harness.results import RESULTS, ROOT, machine
from probe.errors import NothingToReport, SensorUnavailable

from .cards import Card, cuda_card, rig_card
from .stages import SHORT, STAGES, Length

LIMIT_S = 480.0
MOST_BYTES = 16 << 20


def folder_of(card: str, results: Path) -> Path:
    """Where a card's results are kept."""
    return results / f"gpu-{re.sub(r'[^a-z0-9]+', '-', card.lower()).strip('-')}"


def is_done(file: Path, *, short: bool) -> bool:
    """True if a stage has left a result that is no failure, of the length that is asked for."""
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return "failed" not in result and (short or not result.get("short"))


def run_stage(name: str, card: Card, length: Length, folder: Path) -> str:
    """Run one stage here and keep its result. Returns why it failed; empty if it did not."""
    began = time.monotonic()
    try:
        result = STAGES[name](card, length, folder)
    except (NothingToReport, SensorUnavailable, OSError) as error:
        result = {"failed": str(error)}
    about = {"stage": name, "card": card.name, "short": length is SHORT, "machine": machine()}
    about["seconds"] = round(time.monotonic() - began, 1)
    draft = folder / f"{name}.tmp"
    draft.write_text(json.dumps(about | result, indent=1, default=str) + "\n", encoding="utf-8")
    draft.replace(folder / f"{name}.json")
    for file in folder.glob(f"{name}.*"):
        if file.stat().st_size > MOST_BYTES:
            file.unlink()
            return f"{file.name} was larger than {MOST_BYTES >> 20} MiB"
    return str(result.get("failed", ""))


def main(arguments: list[str] | None = None) -> int:
    """Run what is left of the stages, each in a process of its own with a time limit."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--stages", default=",".join(STAGES), help="names with commas")
    options.add_argument("--short", action="store_true", help="seconds in the place of minutes")
    options.add_argument("--again", action="store_true", help="also what is done")
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--rig", type=Path, help="the control file of the tests' stand-in")
    options.add_argument("--only", choices=STAGES, help=argparse.SUPPRESS)
    args = options.parse_args(arguments)
    names = args.stages.split(",")
    if unknown := [name for name in names if name not in STAGES]:
        options.error(f"no such stage: {', '.join(unknown)}; there are {', '.join(STAGES)}")
    try:
        card = cuda_card() if args.rig is None else rig_card(args.rig)
    except NothingToReport as error:
        print(error, file=sys.stderr)
        return 2
    folder = folder_of(card.name, args.results)
    folder.mkdir(parents=True, exist_ok=True)
    if args.only:
        why = run_stage(args.only, card, SHORT if args.short else Length(), folder)
        print(why, end="")
        return 1 if why else 0
    failed = 0
    same = [f"--results={args.results}", *(["--short"] if args.short else [])]
    same += [f"--rig={args.rig}"] if args.rig else []
    for name in names:
        if is_done(folder / f"{name}.json", short=args.short) and not args.again:
            print(f"{name:15} done before")
            continue
        began = time.monotonic()
        command = [sys.executable, "-m", "benchmarks.gpu", "--only", name, *same]
        try:
            done = subprocess.run(
                command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False, timeout=LIMIT_S
            )
            why = done.stdout.strip() or ("" if not done.returncode else "it ended in an error")
        except subprocess.TimeoutExpired:
            why = f"it took more than {LIMIT_S / 60:.0f} minutes"
        failed += bool(why)
        print(f"{name:15} {f'failed: {why}' if why else 'done'} ({time.monotonic() - began:.0f} s)")
    print(f"results in {folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
