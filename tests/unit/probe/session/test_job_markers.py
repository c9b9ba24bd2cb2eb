"""The files by which ranks agree on a run: guessable names in a directory that may be shared."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from probe.errors import ForeignRunError
from probe.session.jobs.job import agree
from probe.store.layout import RUN_FILE
from probe.store.new_files import owner_of_new_files
from probe.store.runs import create_run

STRANGER = 65533
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")


@pytest.mark.parametrize(
    "content",
    ["../att/evil", "/tmp/evil", "a/b", "..", ".hidden", "", "x" * 300, "a\n", "\0", "a..b", "é"],
)
def test_a_marker_holds_a_plain_id_or_is_passed_over(content: str, tmp_path: Path) -> None:
    (tmp_path / ".job-key").write_text(content)
    lines: list[str] = []
    assert agree(tmp_path, "key", "ours", warn=lines.append) == "ours"
    assert agree(tmp_path, "key", "next", warn=lines.append) == "ours"  # of the same job
    assert len(lines) == 2 and ".job-key " in lines[0]
    assert (tmp_path / ".job-key").read_text() == content


def test_a_marker_that_is_no_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".job-fifo")
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / ".job-link").symlink_to(tmp_path / "theirs")
    (tmp_path / ".job-nothing").symlink_to(tmp_path / "made")
    (tmp_path / ".job-folder").mkdir()
    for key in ("fifo", "link", "nothing", "folder"):
        assert agree(tmp_path, key, "ours") == "ours"
    assert not (tmp_path / "made").exists()


def test_a_directory_full_of_strange_markers_costs_the_job_its_sharing_only(tmp_path: Path) -> None:
    for generation in range(40):
        name = f".job-key-{generation}" if generation else ".job-key"
        (tmp_path / name).write_text("../evil")
    assert agree(tmp_path, "key", "ours") == "ours"


@as_root
def test_markers_and_runs_of_another_user_are_passed_over(tmp_path: Path) -> None:
    marker = tmp_path / ".job-key"
    marker.write_text("theirs")
    os.chown(marker, STRANGER, -1)
    assert agree(tmp_path, "key", "ours") == "ours"
    (tmp_path / ".job-other").write_text("theirs")  # a marker of ours, but the run is not
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / RUN_FILE).write_text('{"schema": 1, "status": "running"}')
    os.chown(tmp_path / "theirs", STRANGER, -1)
    assert agree(tmp_path, "other", "ours") == "ours"
    with pytest.raises(ForeignRunError):
        create_run(tmp_path, "theirs", shared=True, fields={})
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == [RUN_FILE]


@as_root
def test_another_user_is_not_joined_by_one_who_is_not_root() -> None:
    """The victim of a planted marker writes nothing into the attacker's directory."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are root's alone
        folder = Path(name)
        folder.chmod(0o1777)
        (folder / ".job-key").write_text("theirs")
        (folder / "theirs").mkdir()
        (folder / "theirs").chmod(0o777)
        os.chown(folder / ".job-key", 65532, -1)
        os.chown(folder / "theirs", 65532, -1)
        child = os.fork()
        if not child:
            code = 1
            try:
                os.setuid(STRANGER)
                chosen = agree(folder, "key", "ours")
                create_run(folder, chosen, shared=True, fields={})
                code = 0 if chosen == "ours" else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert not list((folder / "theirs").iterdir())
        assert (folder / "ours" / RUN_FILE).stat().st_uid == STRANGER


@as_root
def test_all_squash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file server that gives all files to nobody: its owner is ours, whoever we are."""
    monkeypatch.setattr("probe.session.jobs.job.owner_of_new_files", lambda folder: STRANGER)
    (tmp_path / ".job-key").write_text("first")
    os.chown(tmp_path / ".job-key", STRANGER, -1)
    assert agree(tmp_path, "key", "second") == "first"


def test_the_owner_of_new_files_is_asked_of_the_directory(tmp_path: Path) -> None:
    assert owner_of_new_files(tmp_path) == os.geteuid()
    assert not list(tmp_path.iterdir())


def test_a_link_is_no_run_directory(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ForeignRunError, match="not a directory that this job made"):
        create_run(tmp_path, "run", shared=True, fields={})
    assert not list((tmp_path / "elsewhere").iterdir())
