"""Nothing that is written into a run goes through a link that somebody left there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from probe.clock import MACHINE_CLOCK
from probe.model import Gap
from probe.recorder import spawn
from probe.recorder.pipeline.storage import StorageStage
from probe.store import files, layout
from probe.store.dashboard_address import serving
from probe.store.layout import LOOKED_FILE
from probe.store.live import LivePage, look_live, write_live
from probe.store.processes import boot_id, start_ticks
from probe.store.rollup import roll_up
from probe.store.segments import SAMPLES, SegmentWriter, seal_segment

PRECIOUS = "precious"


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user that no link may lead a writer to."""
    path = tmp_path / "precious.txt"
    path.write_text(PRECIOUS)
    return path


def columns() -> dict[str, np.ndarray]:
    return {
        "source": np.zeros(3, np.uint16),
        "time_ns": np.arange(3) + 10**9,
        "value": np.ones(3),
        "span_ns": np.zeros(3, np.int32),
    }


def test_segments_their_sealing_and_their_rollups(tmp_path: Path, precious: Path) -> None:
    node = tmp_path / "run" / "node-h"
    for folder in ("hot", "cold", "rollup"):
        (node / folder).mkdir(parents=True)
    (node / "hot" / "samples-1-000001.arrows").symlink_to(precious)
    (node / "hot" / "samples-1-000002.arrows").symlink_to(tmp_path / "made")
    (node / "cold" / ".samples-1-000003.new").symlink_to(precious)
    for label in ("1s", "10s", "60s"):
        (node / "rollup" / f".{label}-samples-1-000003.new").symlink_to(precious)
    writer = SegmentWriter(node, "samples-1", SAMPLES)
    writer.write(columns())
    (hot,) = writer.close()
    assert hot.name == "samples-1-000003.arrows"
    sealed = seal_segment(hot)
    assert sealed is not None and not sealed.is_symlink()
    roll_up(sealed, node)
    assert len(list((node / "rollup").glob("*.parquet"))) == 3
    assert precious.read_text() == PRECIOUS and not (tmp_path / "made").exists()


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    node = tmp_path / "run" / "node-h"
    node.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (node / "hot").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="link"):
        SegmentWriter(node, "samples-1", SAMPLES).write(columns())
    assert not list((tmp_path / "outside").iterdir())


def test_gaps(tmp_path: Path, precious: Path) -> None:
    layout.node_dir(tmp_path).mkdir()
    (layout.node_dir(tmp_path) / "gaps.jsonl").symlink_to(precious)
    stage = StorageStage(tmp_path, 1, MACHINE_CLOCK)
    stage.readings([Gap("recorder", 1, 2, "why")])
    with pytest.raises(OSError):
        stage.flush()
    assert precious.read_text() == PRECIOUS


def test_the_log_and_the_lease_of_a_recorder(tmp_path: Path, precious: Path) -> None:
    assert spawn.claim(tmp_path, 1)
    (layout.node_dir(tmp_path) / "recorder.log").symlink_to(tmp_path / "made")
    with pytest.raises(OSError):
        spawn.spawn(tmp_path, 1)
    layout.lease_path(tmp_path, 1).unlink()
    layout.lease_path(tmp_path, 1).symlink_to(precious)
    spawn.sign(tmp_path, 1)
    assert spawn.signed(tmp_path, 1) is None
    assert precious.read_text() == PRECIOUS and not (tmp_path / "made").exists()


def test_looking_makes_nothing_elsewhere(tmp_path: Path, precious: Path) -> None:
    layout.node_dir(tmp_path).mkdir()
    write_live(tmp_path, LivePage(time_ns=1, wall_s=time.time(), node="x"))
    old = precious.stat().st_mtime_ns - 10**12
    os.utime(precious, ns=(old, old))
    for target in (tmp_path / "made", precious):
        (tmp_path / LOOKED_FILE).symlink_to(target)
        assert look_live(tmp_path) is not None
        (tmp_path / LOOKED_FILE).unlink()
    assert not (tmp_path / "made").exists() and precious.stat().st_mtime_ns == old
    os.mkfifo(tmp_path / LOOKED_FILE)
    assert look_live(tmp_path) is not None


def test_the_dashboard_of_another_user_is_not_the_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {
        "host": layout.node_name(),
        "boot_id": boot_id(),
        "pid": os.getpid(),
        "start_ticks": start_ticks(os.getpid()),
        "port": 8050,
    }
    files.write_json(layout.dashboard_path(tmp_path), about)
    assert serving(tmp_path) == 8050
    monkeypatch.setattr("probe.store.dashboard_address.owner_of", lambda pid: 65533)
    assert serving(tmp_path) is None
