"""Count how often each test was green, over the result files of several runs.

    python tests/count_green.py [--times 20] build/junit-*.xml

Lists every test that failed in any of them, or was green fewer times than asked, and ends with 1 if
there is one. Tests that were only ever skipped are counted apart: they show nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

BAD = ("failure", "error")


def outcomes(files: Iterable[Path]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """How often each test was green, red and skipped."""
    green, red, skipped = Counter[str](), Counter[str](), Counter[str]()
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            kinds = {child.tag for child in case}
            counter = red if kinds & set(BAD) else skipped if "skipped" in kinds else green
            counter[name] += 1
    return green, red, skipped


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=20, help="how often each must be green")
    parser.add_argument("files", type=Path, nargs="+", help="junit XML files of pytest")
    given = parser.parse_args(words)
    green, red, skipped = outcomes(given.files)
    seldom = {
        name: green[name] for name in sorted(green | red) if red[name] or green[name] < given.times
    }
    for name, count in seldom.items():
        print(f"{count:4} green {red[name]:3} red  {name}")
    never = sorted(set(skipped) - set(green) - set(red))
    print(
        f"{len(given.files)} files, {len(green | red)} tests: {len(seldom)} were red, or green "
        f"fewer than {given.times} times; {len(never)} were only ever skipped"
    )
    return 1 if seldom else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
