"""A process below `probe run` ends as it would alone; how it ended is noted."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from probe.session.process_end import ProcessEnd

class Run:
    def close(self, *, failed=False, exit_code=0, error=""):
        os.write(3, repr((failed, exit_code, error)).encode())

os.dup2(int(sys.argv[1]), 3)
ProcessEnd(Run(), forked=False)
"""


def ended(how: str) -> tuple[subprocess.CompletedProcess[str], tuple[bool, int, str]]:
    import os

    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT + how, str(writer)],
            pass_fds=[writer],
            capture_output=True,
            text=True,
            check=False,
        )
        os.close(writer)
        noted: tuple[bool, int, str] = eval(os.read(reader, 4096).decode())
    finally:
        os.close(reader)
    return done, noted


@pytest.mark.parametrize(
    ("how", "code", "noted"),
    [
        ("pass", 0, (False, 0, "")),
        ("raise ValueError('a  b')", 1, (True, 1, "ValueError: a b")),
        ("sys.exit(3)", 3, (True, 3, "")),
        ("sys.exit('no data')", 1, (True, 1, "")),
        ("sys.exit()", 0, (False, 0, "")),
    ],
)
def test_the_end_is_noted(how: str, code: int, noted: tuple[bool, int, str]) -> None:
    done, ended_by = ended(how)
    assert done.returncode == code, done.stderr
    assert ended_by == noted


def test_an_exit_that_was_caught_is_none() -> None:
    caught = "def f():\n    sys.exit(3)\ntry:\n    f()\nexcept SystemExit:\n    pass"
    done, ended_by = ended(caught)
    assert done.returncode == 0
    assert ended_by == (False, 0, "")


def test_what_the_user_sees_of_an_exception_is_the_same() -> None:
    plain = subprocess.run(
        [sys.executable, "-c", "raise ValueError('a secret: hf_abcdefghijklmnopqrstuvwxyz01')"],
        capture_output=True,
        text=True,
        check=False,
    )
    done, ended_by = ended("raise ValueError('a secret: hf_abcdefghijklmnopqrstuvwxyz01')")
    assert done.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    assert "hf_abc" not in ended_by[2]
