"""Where the token of ``probe dashboard`` and ``probe serve`` may come from."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from probe.cli.arguments import add_token, token_of
from probe.errors import UsageError
from tests.fakes import processes


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_token(parser, "what it is for")
    return parser.parse_args(words)


def test_a_file_comes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("of the file\n")
    monkeypatch.delenv("PROBE_TOKEN", raising=False)
    assert token_of(parsed()) is None
    monkeypatch.setenv("PROBE_TOKEN", "of the environment")
    assert token_of(parsed()) == "of the environment"
    assert token_of(parsed("--token", "given")) == "given"
    assert token_of(parsed("--token-file", str(file))) == "of the file"
    with pytest.raises(UsageError, match="give one of them"):
        token_of(parsed("--token-file", str(file), "--token", "given"))


@pytest.mark.parametrize("content", [b"", b" \n", b"a\nb\n", b"\xff\xfe", b"x" * 5000])
def test_a_file_without_a_token_is_one_clear_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="as one line"):
        token_of(parsed("--token-file", str(file)))
    with pytest.raises(UsageError, match="cannot read"):
        token_of(parsed("--token-file", str(tmp_path / "missing")))


@pytest.mark.parametrize("command", ["dashboard", "serve"])
def test_the_help_warns_of_ps(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "probe", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=processes.ROOT,
        env=processes.environment(tmp_path),
    )
    assert "`ps`" in done.stdout and "--token-file" in done.stdout


def test_the_token_is_not_printed_into_a_log(tmp_path: Path) -> None:
    pytest.importorskip("dash")
    runs, file = tmp_path / "runs", tmp_path / "token"
    runs.mkdir()
    file.write_text("correct-horse\n")
    command = [sys.executable, "-m", "probe", "dashboard", str(runs), "--port", "0", "--idle", "0"]
    done = subprocess.run(
        [*command, "--token-file", str(file)],
        capture_output=True,
        text=True,
        check=True,
        cwd=processes.ROOT,
        env=processes.environment(runs),
        timeout=processes.HUNG_S,
    )
    assert "need the token" in done.stdout
    assert "correct-horse" not in done.stdout + done.stderr
