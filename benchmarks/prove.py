"""Every promise of the project at full size, one figure a line.

    python -m benchmarks.prove              all that was not shown yet for these sources
    python -m benchmarks.prove 2 7          these two
    python -m benchmarks.prove --again      all, whatever was shown before

The promises are in claims/, by area. A result is kept in results/prove/<number>.json with a digest
of the sources that it depends on (sources.py): an interrupted run goes on where it was, and a
commit voids only the figures that it can change. Nothing is shown for sources that are not
committed. Takes about three hours, alone on the machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # if started by its path

from benchmarks.claims import ITEMS, Figure, Item
from benchmarks.harness.results import commit, machine, read, write
from benchmarks.sources import digest


def shown(item: Item) -> dict[str, Any] | None:
    """The result that shows it for the sources as they are; None if there is none."""
    try:
        kept: dict[str, Any] = read(f"prove/{item.number}")
    except (OSError, ValueError):
        return None
    return kept if kept["ok"] and kept["sources"] == digest(item.places) else None


def prove(item: Item) -> bool:
    """Show it, print its figures and keep them; whether all bars hold."""
    begin, figures = time.monotonic(), []
    print(f"\n{item.number}  {item.promise}", flush=True)
    try:
        for figure in item.show():
            figures.append(figure)
            say(figure)
    except Exception as error:  # the other promises are still to be shown
        figures.append(Figure("could not be shown", f"{type(error).__name__}: {error}", False))
        say(figures[-1])
    ok = all(figure.ok for figure in figures)
    kept = {
        "promise": item.promise,
        "ok": ok,
        "sources": digest(item.places),
        "machine": machine(),
        "seconds": round(time.monotonic() - begin),
        "figures": [
            f"{line.what}: {line.value}{'' if line.ok else '  MISSED'}" for line in figures
        ],
    }
    write(f"prove/{item.number}", kept)
    return ok


def say(figure: Figure) -> None:
    """Print it as one line."""
    print(f"   {'ok    ' if figure.ok else 'MISSED'} {figure.what}: {figure.value}", flush=True)


def main() -> None:
    """Show those that are asked for, or all; exit with 1 if a bar is missed."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("items", nargs="*", type=int, help="numbers of promises (all)")
    options.add_argument("--again", action="store_true", help="also what was shown already")
    args = options.parse_args()
    if commit().endswith("-dirty"):
        sys.exit("commit the sources first: a figure is kept for a commit")
    missed = []
    for item in ITEMS:
        if args.items and item.number not in args.items:
            continue
        if not args.again and (kept := shown(item)):
            print(f"\n{item.number}  {item.promise} (shown before)")
            print(*(f"   ok     {line}" for line in kept["figures"]), sep="\n", flush=True)
        elif not prove(item):
            missed.append(str(item.number))
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall shown")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
