"""``python -m docs.site [FOLDER]``: build the site; a warning of Sphinx is an error."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from .accessible import make_accessible
from .source import ROOT, write_source


def build(folder: Path) -> int:
    """Build the site in ``folder``; returns Sphinx's exit code."""
    from sphinx.cmd.build import main as sphinx_build

    source = folder.with_name(f"{folder.name}-source")
    for stale in (source, folder):
        shutil.rmtree(stale, ignore_errors=True)
    write_source(source)
    settings = str(Path(__file__).parent)
    code = sphinx_build(
        [
            "-q",
            "-W",
            "--keep-going",
            "-c",
            settings,
            "-d",
            f"{source}-read",
            str(source),
            str(folder),
        ]
    )
    for page in folder.rglob("*.html"):
        page.write_text(make_accessible(page.read_text(encoding="utf-8")), encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/site"
    code = build(target)
    if code == 0:
        print(f"open {target / 'index.html'}")
    sys.exit(code)
