"""Pytest plugin (``-p tests.uncompiled_plugin``): compiled modules run as plain Python."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
COMPILED = {
    ".".join(source.relative_to(ROOT).with_suffix("").parts): source
    for source in (ROOT / "probe").rglob("*.py")
    if source.read_bytes().startswith(b"# cython:")
}


class _Finder:
    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        source = COMPILED.get(name)
        return source and importlib.util.spec_from_file_location(name, source)


sys.meta_path.insert(0, _Finder)  # before the one that prefers a library beside the source


def pytest_report_header() -> str:
    """Says that it took effect; whoever runs this looks for it."""
    from probe.instrument import state_machine

    return f"phases: {'compiled' if state_machine.COMPILED else 'plain'}"
