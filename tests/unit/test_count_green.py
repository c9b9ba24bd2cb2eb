"""The count over several runs of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.count_green import main

CASES = {
    "green": "",
    "red": "<failure message='no'/>",
    "broken": "<error message='no'/>",
    "skipped": "<skipped message='no'/>",
}


def result(path: Path, **tests: str) -> Path:
    cases = (
        f"<testcase classname='tests' name='{name}'>{CASES[outcome]}</testcase>"
        for name, outcome in tests.items()
    )
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


def test_what_was_always_green_is_not_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [result(tmp_path / f"{n}.xml", sound="green", absent="skipped") for n in range(2)]
    assert main(["--times", "2", *map(str, files)]) == 0
    said = capsys.readouterr().out
    assert "sound" not in said and "1 were only ever skipped" in said


@pytest.mark.parametrize("once", ["red", "broken", "skipped"])
def test_what_was_not_green_once_is_listed(
    once: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        result(tmp_path / "1.xml", sound="green", shaky=once),
        result(tmp_path / "2.xml", sound="green", shaky="green"),
    ]
    assert main(["--times", "2", *map(str, files)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "tests::shaky" in lines[0] and "1 green" in lines[0]
