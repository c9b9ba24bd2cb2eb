"""What a run is called where nobody named it."""

from __future__ import annotations

from pathlib import Path

import pytest

from probe.session.names import command_name, run_name


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("finetune.py", "finetune"),
        ("/home/me/gpt/train.py", "gpt-train"),
        ("/home/me/gpt/main.py", "gpt-main"),
        ("/home/me/gpt/__main__.py", "gpt"),
        ("-c", "python"),
        ("", "python"),
    ],
)
def test_after_the_script(script: str, name: str) -> None:
    assert run_name(script) == name


def test_a_relative_script_is_called_after_the_folder_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "diffusion").mkdir()
    monkeypatch.chdir(tmp_path / "diffusion")
    assert run_name("train.py") == "diffusion-train"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["torchrun", "--nproc_per_node=2", "/x/gpt/train.py", "a.py"], "gpt-train"),
        (["python", "-m", "package.train"], "package.train"),
        (["/bin/true"], "true"),
    ],
)
def test_after_the_command(command: list[str], name: str) -> None:
    assert command_name(command) == name
