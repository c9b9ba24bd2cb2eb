"""What runs at every edge: compiled where it can be, the same as plain Python elsewhere."""

from __future__ import annotations

import importlib.machinery
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.uncompiled_plugin import COMPILED, ROOT

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="no C compiler, or no headers of Python",
)


def library_of(source: Path) -> Path | None:
    """The compiled module beside a source."""
    candidates = [source.with_suffix(suffix) for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    return next((path for path in candidates if path.exists()), None)


@needs_compiler
@pytest.mark.parametrize("name", COMPILED)
def test_it_is_compiled(name: str) -> None:
    assert library_of(COMPILED[name]), "not compiled: make .venv/.installed"


@needs_compiler
def test_what_starts_a_recorder_aside_is_compiled() -> None:
    assert library_of(ROOT / "probe" / "recorder" / "spawn_thread.c")


@needs_compiler
@pytest.mark.parametrize("changed", [*COMPILED, "the C helpers"])
def test_a_library_that_is_older_than_its_source_is_refused(changed: str, tmp_path: Path) -> None:
    copy = tmp_path / "probe"
    shutil.copytree(ROOT / "probe", copy, ignore=shutil.ignore_patterns("__pycache__", "*.c"))

    def imported() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "import probe; probe.watch; print(probe.__file__)"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert imported().stdout.strip() == str(copy / "__init__.py")
    source = COMPILED.get(changed, ROOT / "probe" / "ring" / "native.pxd").relative_to(ROOT)
    with (tmp_path / source).open("a") as file:
        file.write("\n# changed\n")
    refused = imported().stderr.splitlines()[-1]
    assert refused.startswith("ImportError: ") and "pip install" in refused
    assert changed not in COMPILED or f"another {source.name}" in refused
    for name in COMPILED:
        library = library_of(copy.parent / COMPILED[name].relative_to(ROOT))
        assert library is not None
        library.unlink()
    assert imported().returncode == 0  # as plain Python


TRAINS = """
import sys
sys.modules["cython"] = None  # as on a machine that has none
import time
import probe
from probe.instrument.state_machine import COMPILED
with probe.watch(name="plain") as run:
    for _ in range(10):
        with run.phase("work"):
            time.sleep(0.02)
print(probe.__file__, COMPILED)
print(run.report())
"""


def test_it_records_where_there_is_neither_a_compiler_nor_cython(tmp_path: Path) -> None:
    copy = tmp_path / "probe"
    shutil.copytree(
        ROOT / "probe", copy, ignore=shutil.ignore_patterns("__pycache__", "*.c", "*.so")
    )
    done = subprocess.run(
        [sys.executable, "-c", TRAINS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{copy / '__init__.py'} False"
    assert re.search(r"work .* 10\b", done.stdout), done.stdout


def test_where_there_is_no_source_nothing_is_compared(tmp_path: Path) -> None:
    from probe.ring.stale_check import refuse_stale

    refuse_stale(str(tmp_path / "slots.cpython-311.so"), "0123")


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
        timeout=processes.HUNG_S,
    )
    assert "phases: plain" in done.stdout
    assert done.returncode == 0, done.stdout[-4000:]
