"""What a command says of arguments that it cannot use: one line, and the code of a usage error."""

from __future__ import annotations

from pathlib import Path

import pytest

from probe.cli.main import main
from probe.cli.output import write
from probe.errors import UsageError


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert end.value.code == 1
    return line


@pytest.mark.parametrize("output", ["/", ".", ".."])
def test_a_directory_is_no_file_to_write_to(output: str) -> None:
    with pytest.raises(UsageError, match="Is a directory"):
        write("report", "text", output)


@pytest.mark.parametrize("quality", ["-1", "101", "x"])
def test_quality_is_a_percentage(quality: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "compare", "a", "b", "--quality", quality)
    assert f"{quality!r} is not a share in percent" in line


@pytest.mark.parametrize("words", [("nosuch",), ("-o", "f.csv"), ("--set", "a=b")])
def test_an_export_says_where(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert "say where: --to NAME" in refused(capsys, "export", *words)


def test_a_search_from_no_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "ls", str(tmp_path), "--search", "from:yesterday")
    assert line == "probe: from:yesterday is not a date: write from:2026-11-01"
