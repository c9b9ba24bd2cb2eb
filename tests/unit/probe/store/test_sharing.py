"""Who may read a run: its owner alone, unless it is shared."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dashboard.context import AppContext
from dashboard.pages import runs
from probe.cli.main import main
from probe.clock import MACHINE_CLOCK
from probe.errors import StoreError, UsageError
from probe.recorder.live.page import LivePageStage
from probe.store import files, layout
from probe.store.live import ViewerWatch, look_live
from probe.store.reader import RunReader
from probe.store.runs import create_run, find_run
from probe.store.segments import SAMPLES, SegmentWriter, seal_segment
from probe.store.sharing import share
from tests.fakes.listed_runs import summaries

ID = "20260101-000000-aaa"
STRANGER, GROUP = 65533, 4242
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that another user can reach: pytest's own are root's alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def make(directory: Path, run_id: str = ID) -> Path:
    run = create_run(directory, run_id, shared=False, fields={"name": "x"})
    writer = SegmentWriter(layout.node_dir(run), "samples-1", SAMPLES)
    for _ in range(2):
        writer.write(
            {
                "source": np.zeros(3, np.uint16),
                "time_ns": np.arange(3) + 10**9,
                "value": np.ones(3),
                "span_ns": np.zeros(3, np.int32),
            }
        )
        (hot,) = writer.close()
        seal_segment(hot)
    return run


def as_other(call: Callable[[], object], gid: int = 65533) -> object:
    """What a call gives in a process of another user and group, as JSON."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(STRANGER)
            os.write(write, json.dumps(call()).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as answer:
        return json.loads(answer.read())


def modes(run: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in run.rglob("*")}


@pytest.mark.parametrize(
    ("who", "mode", "bits"), [("", 0o700, 0), ("group", 0o750, 0o040), ("all", 0o755, 0o044)]
)
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_new_runs_are_private_or_as_asked_whatever_the_umask(
    who: str, mode: int, bits: int, umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_SHARE", who)
    before = os.umask(umask)
    try:
        run = make(tmp_path)
        # Another host or attempt, whose environment says something else.
        monkeypatch.setenv("PROBE_SHARE", "private")
        create_run(tmp_path, ID, shared=True, fields={})
        files.write_json(run / "merged.json", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE(run.stat().st_mode) == mode
    assert all(inside & bits == bits for inside in modes(run))
    assert RunReader(run).meta["share"] == (who or "private")


def test_the_groups_bit_of_the_directory_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_SHARE", "group")
    os.chmod(tmp_path, 0o2770)
    run = make(tmp_path)
    assert stat.S_IMODE(run.stat().st_mode) == 0o2750
    share(run, "private")
    assert stat.S_IMODE(run.stat().st_mode) == 0o2700


def test_a_wrong_word_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_SHARE", "everyone")
    with pytest.raises(UsageError, match="group, all or private"):
        make(tmp_path)
    assert not list(tmp_path.iterdir())


@as_root
def test_what_one_may_not_read_is_listed_with_what_opens_it(place: Path) -> None:
    run = make(place)
    (row,) = as_other(lambda: summaries(place))
    assert (row["id"], row["status"]) == (ID, "private")
    assert row["problem"] == f"private, of root, who opens it with `probe share {ID} group`"

    def page() -> str:
        return str(runs.PAGE.layout(AppContext(place), {}).to_plotly_json())

    text = str(as_other(page))
    assert f"of root, who opens it with `probe share {ID} group`" in text
    assert f"/run/{ID}" not in text  # no link to what cannot be opened

    def refused(reference: str) -> str:
        try:
            return str(find_run(reference, place))
        except StoreError as error:
            return str(error)

    for reference in (ID, str(run)):
        assert "private, of root" in str(as_other(lambda ref=reference: refused(ref)))


@as_root
@pytest.mark.parametrize("when", ["before", "while it goes on"])
def test_a_reader_of_the_group_asks_for_frequent_estimates(when: str, place: Path) -> None:
    run = make(place)
    os.chown(run, 0, GROUP)
    if when == "before":
        share(run, "group")
    viewers = ViewerWatch(run)
    LivePageStage(run, 0, MACHINE_CLOCK).publish(1, [], {}, [])
    for path in run.rglob("*"):
        os.chown(path, 0, GROUP)
    share(run, "group")

    def look() -> bool:
        try:
            return look_live(run) is not None
        except OSError:
            return False

    assert not viewers.active(1000.0)
    as_other(look, STRANGER)
    assert not viewers.active(1001.0)
    assert as_other(look, GROUP)
    assert viewers.active(1002.0)
    as_other(lambda: (run / "looked").write_text("much"), GROUP)
    assert viewers.active(1003.0) and (run / "looked").stat().st_size == 0


@as_root
def test_the_command_opens_and_closes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.umask(0o077)
    try:
        run = make(place)
    finally:
        os.umask(before)
    os.chown(run, 0, GROUP)
    for path in run.rglob("*"):
        os.chown(path, 0, GROUP)
    (run / "link").symlink_to("/etc/shadow")

    def status(gid: int) -> object:
        (row,) = as_other(lambda: summaries(place), gid)  # type: ignore[misc]
        return row["status"]

    def command(who: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["share", ID, who, "--dir", str(place)])
        assert ended.value.code == 0 and capsys.readouterr().out == f"{ID}: {who}\n"

    assert status(GROUP) == "private"
    command("group")
    assert status(GROUP) != "private" and status(STRANGER) == "private"
    command("all")
    assert status(STRANGER) not in ("private", "unreadable")
    command("private")
    assert status(GROUP) == "private"

    def not_ones_own() -> str:
        try:
            share(run, "all")
        except StoreError as error:
            return str(error)
        return ""

    os.chmod(run, 0o755)
    assert "its owner root can" in str(as_other(not_ones_own))


def test_a_config_that_no_run_file_holds_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="too large"):
        create_run(tmp_path, ID, shared=False, fields={"config": {"a": "x" * (3 << 20)}})
    assert not list(tmp_path.iterdir())
