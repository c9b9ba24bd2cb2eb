"""Which sources a figure depends on, and a digest of them.

A promise names the packages that it is about and the tests or benchmarks that show it; whatever
these import of the project belongs to it, at any depth. So a change of the dashboard leaves the
figures of the estimator valid.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from benchmarks.harness.results import ROOT


def digest(places: Iterable[str]) -> str:
    """Of all files in ``places`` (files or folders, relative to the root) and what they import."""
    total = hashlib.sha256()
    for path in sorted(closure(places)):
        total.update(str(path).encode() + b"\0" + (ROOT / path).read_bytes())
    return total.hexdigest()[:16]


def closure(places: Iterable[str]) -> set[Path]:
    """Those files, and the project's files that they import, relative to the root.

    Raises FileNotFoundError for a place that is not there.
    """
    reached: set[Path] = set()
    waiting = [path for place in places for path in _files(ROOT / place)]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        if path.suffix == ".py":
            waiting += _imports(path)
    return {path.relative_to(ROOT) for path in reached}


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    elif place.is_dir():
        kept = (".py", ".pxd", ".pyx", ".c", ".js", ".css", ".json", ".yml")
        yield from (path for path in place.rglob("*") if path.suffix in kept)
    else:
        raise FileNotFoundError(place)


@cache
def _imports(path: Path) -> tuple[Path, ...]:
    package = path.parent.relative_to(ROOT).parts
    modules: list[tuple[str, ...]] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            modules += [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            modules += [base, *((*base, alias.name) for alias in node.names)]
    files = (file for parts in modules for file in _of_module(parts))
    return tuple(dict.fromkeys(files))


def _of_module(parts: tuple[str, ...]) -> Iterator[Path]:
    """Files that importing a module needs: its own and its packages'.

    Not ``probe/__init__.py`` for a module below it, which only names what users call.
    """
    for length in range(min(2, len(parts)), len(parts) + 1):
        place = ROOT.joinpath(*parts[:length])
        needed = (place.with_suffix(".py"), place.with_suffix(".pxd"), place / "__init__.py")
        yield from (path for path in needed if path.is_file())
