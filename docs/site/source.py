"""What Sphinx reads: each page at its address, with the links that hold there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from .generated import MAKERS
from .navigation import HOME, INSTEAD, PAGES, SECTIONS, TITLES

ROOT = Path(__file__).resolve().parents[2]
IMAGES = (".png", ".svg")

_LINK = re.compile(  # [text](to) and ![text](to); a text may hold an image
    r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\((?P<to>[^)\s]+)\)"
)
_FENCE = re.compile(r"^( *```.*?^ *```[ ]*$)", re.MULTILINE | re.DOTALL)


def write_source(folder: Path) -> None:
    """Write every page of :data:`~docs.site.navigation.PAGES` below ``folder``.

    Raises:
        ValueError: a page leads to a file that does not exist.
    """
    for file, address in PAGES.items():
        if file in MAKERS:
            name, text = MAKERS[file].suffix, MAKERS[file].make()
        else:
            name, text = ".md", placed((ROOT / file).read_text(encoding="utf-8"), file, folder)
        if file == HOME:
            text += _toctrees()
        target = folder / f"{address}{name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def placed(text: str, file: str, folder: Path) -> str:
    """The page's text with links for its address; images are copied into ``folder``."""
    parts = _FENCE.split(text)  # every second one is a block of code
    return "".join(
        part if number % 2 else _LINK.sub(lambda link: _relinked(link, file, folder), part)
        for number, part in enumerate(parts)
    )


def links(text: str) -> Iterator[str]:
    """Where the links and images of a page lead, blocks of code left out."""
    for part in _FENCE.split(text)[::2]:
        for link in _LINK.finditer(part):
            yield link["to"]
            yield from links(link["text"])


def _relinked(link: re.Match[str], file: str, folder: Path) -> str:
    text = _LINK.sub(lambda inner: _relinked(inner, file, folder), link["text"])
    to, hash_, anchor = link["to"].partition("#")
    if ":" in to or not to:
        return f"{link['image']}[{text}]({link['to']})"
    path = os.path.normpath(PurePosixPath(file).parent / to)
    if not (ROOT / path).exists():
        raise ValueError(f"{file} leads to {link['to']}, which does not exist")
    path = INSTEAD.get(path, path)
    here = PurePosixPath(PAGES[file]).parent
    if path in PAGES:
        target = os.path.relpath(f"{PAGES[path]}.md", here)
        return f"[{text}]({target}{hash_}{anchor})"
    if path.endswith(IMAGES):
        copy = folder / "images" / Path(path).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy)
        return f"{link['image']}[{text}]({os.path.relpath(copy, folder / here)})"
    return text if text.startswith("`") else f"{text} (`{path}`)"  # a file of the repository


def _toctrees() -> str:
    """The navigation, a part for each section."""
    parts = []
    for section, pages in SECTIONS.items():
        entries = [f"{TITLES[to]} <{to}>" if to in TITLES else to for to in pages.values()]
        lines = "\n".join(entries)
        parts.append(f"\n```{{toctree}}\n:hidden:\n:caption: {section}\n\n{lines}\n```\n")
    return "".join(parts)
