"""Tags and notes: kept beside the run, none lost however many write, nobody else's touched."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from probe.cli.main import main
from probe.errors import StoreError, UsageError
from probe.store import layout
from probe.store.catalogue.labels import MOST_NOTE_BYTES, Labels, change_labels, read_labels
from probe.store.runs import create_run
from tests.fakes import processes

ID = "20260101-000000-aaa"


def made(directory: Path, run_id: str = ID) -> Path:
    return create_run(directory, run_id, shared=False, fields={"name": "x"})


def test_what_is_written_is_read_and_the_rest_stays(tmp_path: Path) -> None:
    run = made(tmp_path)
    before = (run / layout.RUN_FILE).read_bytes()
    assert read_labels(run) == Labels()
    change_labels(run, add=["b", "a"], note="  first\r\nsecond ")
    change_labels(run, add=["c"], remove=["b", "never"], archived=True)
    assert read_labels(run) == Labels(("a", "c"), "first\nsecond", True)
    assert change_labels(run, note="", archived=False) == Labels(("a", "c"))
    assert (run / layout.RUN_FILE).read_bytes() == before


@pytest.mark.parametrize("tag", ["", "a b", "-x", "+x", "x" * 41, "a\n", "<b>", "a,b", "\x1b[1m"])
def test_what_is_no_tag_is_refused_in_a_line(tag: str, tmp_path: Path) -> None:
    run = made(tmp_path)
    with pytest.raises(UsageError, match="is no tag") as error:
        change_labels(run, add=["good", tag])
    assert "\n" not in str(error.value) and read_labels(run) == Labels()


def test_a_note_of_ten_kilobytes_and_no_more(tmp_path: Path) -> None:
    run = made(tmp_path)
    note = "é" * (MOST_NOTE_BYTES // 2)
    assert change_labels(run, note=note).note == note
    with pytest.raises(UsageError, match="10 kB"):
        change_labels(run, note=note + "x")
    assert read_labels(run).note == note
    assert change_labels(run, note="a\x1b[31mb\x00c\td").note == "a[31mbc\td"
    with pytest.raises(UsageError, match="32 tags"):
        change_labels(run, add=[f"t{number}" for number in range(33)])


def test_a_note_that_was_changed_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    run = made(tmp_path)
    change_labels(run, note="hers", note_before="")
    with pytest.raises(UsageError, match="changed meanwhile"):
        change_labels(run, add=["t"], note="his", note_before="")
    assert read_labels(run) == Labels(note="hers")
    assert change_labels(run, note="both", note_before="hers").note == "both"


def add_tags(run: Path, writer: int, count: int) -> None:
    for number in range(count):
        change_labels(run, add=[f"w{writer}-{number}"])


def test_writers_of_one_run_and_of_many_lose_nothing(tmp_path: Path) -> None:
    same, others = made(tmp_path), [made(tmp_path, f"{ID}-{k}") for k in range(4)]
    context = multiprocessing.get_context("fork")
    writers = [
        context.Process(target=add_tags, args=(run, writer, 7))
        for writer, other in enumerate(others)
        for run in (same, other)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(processes.HUNG_S)
        assert writer.exitcode == 0
    expected = {f"w{writer}-{number}" for writer in range(4) for number in range(7)}
    assert set(read_labels(same).tags) == expected
    assert all(len(read_labels(run).tags) == 7 for run in others)
    assert not [path.name for path in same.iterdir() if path.name.startswith(".labels.json")]


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")
def test_another_users_run_is_refused(tmp_path: Path) -> None:
    run = made(tmp_path)
    change_labels(run, note="mine")
    os.chown(run, 12345, 12345)
    with pytest.raises(StoreError, match="belongs to 12345, who alone may tag it"):
        change_labels(run, note="not mine")
    assert json.loads((run / layout.LABELS_FILE).read_text())["note"] == "mine"


def test_labels_of_another_user_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path)
    change_labels(run, note="mine")
    monkeypatch.setattr("probe.store.untrusted.is_trusted", lambda path, status: False)
    assert read_labels(run) == Labels()


def test_a_read_only_run_is_refused_in_a_line(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.chmod(0o555)
    try:
        with pytest.raises(StoreError, match="read-only"):
            change_labels(run, add=["t"])
    finally:
        run.chmod(0o755)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"tags": "x", "note": 3, "archived": "yes"}',
        b'{"note": "x", "crc32": "0"}',
    ],
)
def test_a_damaged_file_is_no_labels_and_can_be_replaced(content: bytes, tmp_path: Path) -> None:
    run = made(tmp_path)
    (run / layout.LABELS_FILE).write_bytes(content)
    assert read_labels(run) == Labels()
    assert change_labels(run, add=["t"]) == Labels(("t",))


def test_a_link_in_the_place_of_the_file_leads_nowhere(tmp_path: Path) -> None:
    run, secret = made(tmp_path), tmp_path / "secret"
    secret.write_text('{"note": "secret"}')
    (run / layout.LABELS_FILE).symlink_to(secret)
    (run / ".labels.lock").symlink_to(secret)
    assert read_labels(run) == Labels()
    with pytest.raises(StoreError):
        change_labels(run, add=["t"])
    (run / ".labels.lock").unlink()
    change_labels(run, add=["t"])
    assert secret.read_text() == '{"note": "secret"}'


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["probe", *words])
    with pytest.raises(SystemExit):
        main(list(words))
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(tmp_path)
    monkeypatch.setenv("PROBE_DIR", str(tmp_path))
    assert said(monkeypatch, capsys, "tag", "x", "+a", "+b") == f"{ID}: +a +b\n"
    words = ("-a", "latest", "--note", "-5 % than before", "--archive")
    out = said(monkeypatch, capsys, "tag", *words)
    assert out == f"{ID}: +b archived\n-5 % than before\n"
    assert read_labels(run) == Labels(("b",), "-5 % than before", True)
    said(monkeypatch, capsys, "tag", "x", "--add", "c", "--remove", "b")
    assert read_labels(run).tags == ("c",)
    assert "archived" not in said(monkeypatch, capsys, "tag", "x", "--unarchive")
    assert "give one of them" in said(monkeypatch, capsys, "tag", "x", "+a", "-a")
    assert "is no tag" in said(monkeypatch, capsys, "tag", "x", "+a b")
    assert "no run" in said(monkeypatch, capsys, "tag", "nosuch", "+a")
