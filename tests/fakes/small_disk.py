"""A file system of few bytes, to fill."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_file_system(folder: Path, size: str) -> Iterator[Path]:
    """``folder`` as a tmpfs of ``size`` (``1m``); the test is skipped where that takes rights."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mount -t tmpfs")
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(disk: Path, seconds: float) -> tuple[int, int]:
    """Leave no space for so long; when that was, in ns."""
    ballast, size = disk / "ballast", 1 << 20
    begin_ns = time.monotonic_ns()
    with open(ballast, "wb", buffering=0) as file:
        while time.monotonic_ns() < begin_ns + seconds * 1e9:
            try:
                file.write(b"\1" * size)
            except OSError:
                size = max(1, size // 2)
                time.sleep(0.02)
    end_ns = time.monotonic_ns()
    ballast.unlink()
    return begin_ns, end_ns
