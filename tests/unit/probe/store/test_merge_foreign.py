"""A part of a job that came from somebody else: nothing leaves its folder, no link is followed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from probe.errors import StoreError
from probe.store import files, layout
from probe.store.merge import merge
from tests.fakes.stored_run import NS, gauge_source, stored_run, write_steps


def two_parts(folder: Path) -> tuple[Path, Path]:
    samples = np.arange(8) * NS + 1000 * NS, np.ones(8)
    parts = []
    for rank, name in enumerate(("one", "two")):
        (folder / name).mkdir()
        source = gauge_source(0, "temperature", "Cel")
        run = stored_run(folder / name, [(source, samples)], 20.0, run_id=name)
        write_steps(run, 1000 * NS, 10)
        meta = files.read_json(run / layout.RUN_FILE) | {"job": "job", "host": f"h{rank}"}
        (run / f"node-{layout.node_name()}").rename(run / f"node-h{rank}")
        (run / "rank-00000").rename(run / f"rank-{rank:05d}")
        files.write_json(run / layout.RUN_FILE, meta)
        parts.append(run)
    return parts[0], parts[1]


def member(run: Path, host: str, **fields: object) -> None:
    value = {
        "role": "rank",
        "rank": 1,
        "local_rank": 0,
        "local_world_size": 1,
        "world_size": 2,
        "host": host,
        "boot_id": "b",
        "pid": 7,
        "start_ticks": 1,
        "begin_ns": 5,
        "rings": "/dev/shm",
        "prefix": "",
        "request": {},
    }
    layout.members_dir(run).mkdir(exist_ok=True)
    (layout.members_dir(run) / "a.json").write_text(json.dumps(value | fields))


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_fields_of_a_member_lead_nowhere(tmp_path: Path) -> None:
    main, part = two_parts(tmp_path)
    member(part, "h1", role="../../../.config-settings")
    before = everything(tmp_path)
    merge([main, part])
    inside = str(main.relative_to(tmp_path))
    new = everything(tmp_path) - before
    marker = str((part / layout.MERGED).relative_to(tmp_path))
    assert all(name.startswith(f"{inside}/") or name == marker for name in new), new


def test_a_member_goes_along(tmp_path: Path) -> None:
    main, part = two_parts(tmp_path)
    member(part, "h1")
    assert merge([main, part]).joined == ["h1"]
    assert (main / "members" / "rank-00001-7-5.json").is_file()


def test_links_and_special_files_are_left_out_and_named(tmp_path: Path) -> None:
    main, part = two_parts(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("precious")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("precious")
    node = part / "node-h1"
    (node / "leak.txt").symlink_to(secret)
    (node / "leak").symlink_to(tmp_path / "private")
    os.mkfifo(node / "fifo")
    (part / "rank-00009").symlink_to(tmp_path / "private")
    (node / "sources.json").chmod(0o4777)
    merged = merge([main, part])
    names = {Path(path).name for path in merged.left_out}
    assert names == {"leak.txt", "leak", "fifo", "rank-00009"}
    copy = main / "node-h1"
    assert not any("precious" in p.read_text("latin1") for p in copy.rglob("*") if p.is_file())
    assert not any(path.is_symlink() for path in copy.rglob("*"))
    assert (copy / "sources.json").read_bytes() == (node / "sources.json").read_bytes()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((copy / "sources.json").stat().st_mode) == 0o666 & ~umask


def test_a_members_folder_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    main, part = two_parts(tmp_path)
    member(part, "h1")
    outside = tmp_path / "outside"
    outside.mkdir()
    for path in layout.members_dir(main).iterdir():
        path.unlink()
    layout.members_dir(main).rmdir()
    layout.members_dir(main).symlink_to(outside)
    with pytest.raises(StoreError, match="link"):
        merge([main, part])
    assert not list(outside.iterdir())
    assert not [path for path in main.iterdir() if path.name.startswith(".")]
