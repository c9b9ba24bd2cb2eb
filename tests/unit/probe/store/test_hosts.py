"""A run of two hosts on disk: who is read in whose time, and what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from probe.errors import StoreError
from probe.store import files, layout
from probe.store.merge import merge
from probe.store.reader import RunReader
from tests.fakes.stored_run import NS, gauge_source, stored_run, write_steps


def two_hosts(tmp_path: Path) -> Path:
    """The second host's clock is 1000 s ahead; each has one gauge and a rank."""
    samples = np.arange(8) * NS + 1000 * NS, np.ones(8)
    run = stored_run(tmp_path, [(gauge_source(0, "temperature", "Cel"), samples)], 20.0)
    write_steps(run, 1000 * NS, 10)
    home = files.read_json(run / layout.RUN_FILE)
    node = next(run.glob("node-*"))
    guest = run / "node-other"
    shutil.copytree(node, guest)
    of_an_end = ("end_ns", "ended_by", "exit_code")
    files.write_json(
        guest / "node.json",
        {key: value for key, value in home.items() if key not in of_an_end}
        | {
            "host": "other",
            "begin_ns": home["begin_ns"] + 1000 * NS,
            "clock": {"reference": home["host"], "offset_ns": -1000 * NS, "bound_ns": 500},
        },
    )
    files.write_json(
        run / layout.RUN_FILE,
        home
        | {
            "ended_by": "rank 0 failed",
            "exit_code": 3,
            "clock": {"reference": home["host"], "offset_ns": 0, "bound_ns": 0},
        },
    )
    return run


def test_each_host_in_its_own_time_and_all_in_the_jobs(tmp_path: Path) -> None:
    run = two_hosts(tmp_path)
    reader = RunReader(run)
    home, other = sorted(reader.hosts(), key=lambda host: host.node == "other")
    assert other.begin_ns - home.begin_ns == 1000 * NS
    assert reader.begin_ns == home.begin_ns
    (our_series,), (theirs,) = home.series(), other.series()
    assert our_series.source.device == theirs.source.device
    shown = {host.source.device: host for host in reader.series()}
    assert len(shown) == 2  # named after their hosts
    name = f"other/{theirs.source.device}"
    assert np.array_equal(shown[name].time_ns, theirs.time_ns - 1000 * NS)
    assert reader.clocks["other"].bound_ns == 500
    # How the one ended is nothing of the other's, and neither is when.
    assert home.meta["ended_by"] == "rank 0 failed" and "ended_by" not in other.meta
    assert other.end_ns() >= other.begin_ns and other.meta["name"] == "made"
    assert reader.status == "finished"


def test_a_host_whose_files_are_gone_leaves_the_other_readable(tmp_path: Path) -> None:
    run = two_hosts(tmp_path)
    home = files.read_json(run / layout.RUN_FILE)["host"]
    shutil.rmtree(run / f"node-{home}")
    reader = RunReader(run)
    assert reader.status == "finished" and reader.end_ns() > reader.begin_ns
    assert {host.node for host in reader.hosts()} == {home, "other"}
    assert len(reader.series()) == 1


def test_strangers_are_not_merged(tmp_path: Path) -> None:
    samples = np.arange(8) * NS + 1000 * NS, np.ones(8)
    home, other = (
        stored_run(tmp_path, [(gauge_source(0, "temperature", "Cel"), samples)], 20.0, run_id=name)
        for name in ("one", "other")
    )
    with pytest.raises(StoreError, match="not parts of one job: one, other"):
        merge([home, other])
    assert not list(tmp_path.glob("*/merged.json"))
