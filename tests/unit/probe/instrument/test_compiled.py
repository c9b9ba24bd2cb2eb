"""What runs at every edge: compiled where it can be, the same as plain Python elsewhere."""

from __future__ import annotations

import importlib.machinery
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.uncompiled_plugin import COMPILED, ROOT


@pytest.mark.skipif(
    shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="no C compiler, or no headers of Python",
)
@pytest.mark.parametrize("name", COMPILED)
def test_what_runs_is_compiled_from_what_is_here(name: str) -> None:
    source = COMPILED[name]
    libraries = [
        library
        for suffix in importlib.machinery.EXTENSION_SUFFIXES
        if (library := source.with_suffix(suffix)).exists()
    ]
    assert libraries, "not compiled: make .venv/.installed"
    written = max(
        path.stat().st_mtime for path in (source, source.with_suffix(".pxd")) if path.exists()
    )
    assert libraries[0].stat().st_mtime >= written, "older than its source: make .venv/.installed"


@pytest.mark.full
def test_plain_python_does_the_same() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.uncompiled_plugin",
            "-p",
            "no:cacheprovider",
            "tests/unit/probe/instrument",
            "tests/unit/probe/ring",
            "--deselect",
            "tests/unit/probe/instrument/test_compiled.py",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert "phases: plain" in done.stdout
    assert done.returncode == 0, done.stdout[-4000:]
