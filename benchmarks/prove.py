"""Every promise of the project at full size, one figure a line.

    python benchmarks/prove.py              all that was not shown yet for these sources
    python benchmarks/prove.py 2 7          these two
    python benchmarks/prove.py --again      all, whatever was shown before

The promises are in claims/, by area. A result is kept in results/prove-<number>.json with a digest
of the sources that it depends on (sources.py): an interrupted run goes on where it was, and a
commit voids only the figures that it can change. Nothing is shown for sources that are not
committed. Takes about three hours, alone on the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from common import RESULTS, ROOT, commit, machine

sys.path.insert(0, str(ROOT))

from claims import ITEMS, Figure, Item
from sources import digest


def shown(item: Item) -> bool | None:
    """Was it shown for the sources as they are? None: not tried yet."""
    try:
        kept = json.loads((RESULTS / f"prove-{item.number}.json").read_text())
    except (OSError, ValueError):
        return None
    return bool(kept["ok"]) if kept["sources"] == digest(item.places) else None


def prove(item: Item) -> bool:
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
    RESULTS.mkdir(exist_ok=True)
    kept = {
        "promise": item.promise,
        "ok": ok,
        "sources": digest(item.places),
        "machine": machine(),
        "seconds": round(time.monotonic() - begin),
        "figures": [
            f"{line.what}: {line.found}{'' if line.ok else '  MISSED'}" for line in figures
        ],
    }
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    (RESULTS / f"prove-{item.number}.json").write_text(text + "\n")
    return ok


def say(figure: Figure) -> None:
    print(f"   {'ok    ' if figure.ok else 'MISSED'} {figure.what}: {figure.found}", flush=True)


def main() -> None:
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
        if not args.again and shown(item):
            kept = json.loads((RESULTS / f"prove-{item.number}.json").read_text())
            print(f"\n{item.number}  {item.promise} (shown before)")
            print(*(f"   ok     {line}" for line in kept["figures"]), sep="\n", flush=True)
        elif not prove(item):
            missed.append(str(item.number))
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall shown")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
