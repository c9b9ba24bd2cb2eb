"""A stored run whose files are damaged: one clear line, or a report that says what is missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from probe.store import files
from tests.fakes import processes
from tests.fixtures.archives import STORED_RUNS, unpack

NAME = "20261124-130721-base-0"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    unpack(STORED_RUNS, folder)
    return folder / "runs" / NAME


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in range(40, len(content) // 2, 7):
        content[place] ^= 0xFF
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def not_utf8(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"name"', b'"n\xffme"', 1))


def another_type(path: Path) -> None:
    path.write_text('{"a": [1]}')


def a_list_of_numbers(path: Path) -> None:
    path.write_text("[1, 2]")


def carbon_is_a_number(path: Path) -> None:
    edited = files.read_json(path) | {"carbon": 5}
    path.write_text(json.dumps(edited))


@pytest.mark.parametrize(
    ("pattern", "damage", "code", "says"),
    [
        ("node-*/statistics-*.npz", empty, 0, ""),
        ("node-*/summary.npz", empty, 0, ""),
        ("run.json", not_utf8, 1, "run.json is damaged"),
        ("run.json", another_type, 1, "run.json is damaged"),
        ("run.json", empty, 1, "restore it or remove"),
        ("run.json", carbon_is_a_number, 1, "'carbon' is missing or not what it should be"),
        ("node-*/sources.json", another_type, 1, "sources.json is damaged"),
        ("node-*/sources.json", a_list_of_numbers, 1, "sources.json is damaged"),
        ("node-*/cold/samples-*.parquet", flip, 0, "parquet is damaged"),
        ("rank-*/cold/edges-*.parquet", flip, 0, "parquet is damaged"),
    ],
)
def test_one_clear_line_or_a_report_that_says_what_is_missing(
    pattern: str, damage: Callable[[Path], None], code: int, says: str, stored: Path, tmp_path: Path
) -> None:
    run = tmp_path / "runs" / NAME
    shutil.copytree(stored, run)
    for path in run.glob(pattern):
        damage(path)
    words = ["report", str(run)] + (["--recompute"] if "parquet" in pattern else [])
    said = processes.probe(tmp_path, *words)
    assert "Traceback" not in said.stderr and said.returncode == code, said.stderr
    assert says in said.stdout + said.stderr
    if code:
        assert len(said.stderr.splitlines()) == 1
    listed = processes.probe(tmp_path, "ls", str(run.parent))
    assert listed.returncode == 0 and "Traceback" not in listed.stderr
    assert len(listed.stdout.splitlines()) == 2
    assert ("unreadable" in listed.stdout) == (code == 1 and pattern == "run.json")
