"""What others leave in a directory of runs stops nobody, and is no part of a run."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from probe.errors import StoreError
from probe.ring import layout as ring_layout
from probe.ring.reader import RingReader
from probe.ring.writer import RingWriter
from probe.store import files, layout, untrusted
from probe.store.members import read_members
from probe.store.reader import RunReader
from probe.store.runs import create_run
from tests.fakes.listed_runs import summaries
from tests.unit.probe.store.test_status import join

GIB = 1 << 30
STRANGER = 65533
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")


def make(folder: Path, run_id: str = "20260101-000000-aaa") -> Path:
    run = create_run(folder, run_id, shared=False, fields={"name": "x"})
    join(run, os.getpid(), 1)
    return run


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(12 * GIB)


def folder(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's name is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def deep(path: Path) -> None:
    path.write_text("[" * 200_000)


def not_utf8(path: Path) -> None:
    path.write_bytes(b'{"schema": 1, "name": "\xff"}')


PLANTS: list[Callable[[Path], None]] = [fifo, device, sparse, folder, listening, deep, not_utf8]


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_no_file_of_ours_is_one_damaged_run(
    plant: Callable[[Path], None], tmp_path: Path
) -> None:
    good = make(tmp_path)
    bad = tmp_path / "planted"
    bad.mkdir()
    plant(bad / layout.RUN_FILE)
    rows = {row["id"]: row for row in summaries(tmp_path)}
    assert rows[good.name]["problem"] is None
    problem = rows["planted"]["problem"]
    assert problem and "\n" not in problem and str(bad) in problem
    with pytest.raises(StoreError, match="planted"):
        RunReader(bad)


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize(
    "place",
    [
        "members/rank-00000-1-1.json",
        "node-x/node.json",
        "node-x/live.json",
        "node-x/sources.json",
        "node-x/gaps.jsonl",
        "node-x/summary.npz",
        "node-x/hot/samples-1-000001.arrows",
        "node-x/cold/samples-1-000002.parquet",
        "rank-00000/names-main.json",
        "rank-00000/hot/edges-main-1-000001.arrows",
        "rank-00000/cold/edges-main-1-000002.parquet",
        "rank-00000/cold/ledger-1-000001.parquet",
    ],
)
def test_no_part_of_a_run_hangs_its_reader(
    plant: Callable[[Path], None], place: str, tmp_path: Path
) -> None:
    run = make(tmp_path)
    path = run / place
    path.parent.mkdir(parents=True, exist_ok=True)
    plant(path)
    with contextlib.suppress(StoreError):  # without sources no sample can be told from another
        read_everything(run)


def read_everything(run: Path) -> RunReader:
    from probe.store.live import read_live

    reader = RunReader(run)
    reader.series()
    reader.gaps()
    reader.rings()
    reader.names(0, "main")
    reader.values()
    reader.ledger()
    reader.end_ns()
    read_live(run)
    for node in reader.nodes():
        files.read_arrays(node / "summary.npz")
    return reader


LISTING = """
import re, sys, time
from pathlib import Path
from probe.cli.main import main
try:
    main(["ls", sys.argv[1]])
finally:
    (kib,) = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
    print(int(kib) >> 10, time.process_time(), file=sys.stderr)
"""


def test_a_directory_full_of_plants_is_listed_at_once(tmp_path: Path) -> None:
    make(tmp_path)
    for number, plant in enumerate(PLANTS):
        bad = tmp_path / f"planted-{number}"
        bad.mkdir()
        plant(bad / layout.RUN_FILE)
    run = make(tmp_path, "20260101-000000-bbb")
    for number, plant in enumerate(PLANTS):
        plant(run / "members" / f"rank-0000{number}-1-1.json")
    with open(run / "phasewatt-0-x-0-1.1-main.ring", "wb") as ring:
        ring.truncate(12 * GIB)
    listed = subprocess.run(
        [sys.executable, "-c", LISTING, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0 and len(listed.stdout.splitlines()) == 3 + len(PLANTS)
    mib, busy_s = listed.stderr.splitlines()[-1].split()
    assert int(mib) < 300
    assert float(busy_s) < 10  # of a processor; it takes one, and going through 12 GiB many


def zip_bomb(path: Path) -> None:
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
    header += (
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (402653184,), }".ljust(117) + b"\n"
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("a.npy", "w", force_zip64=True) as member:
            member.write(header)
            for _ in range(300):
                member.write(bytes(1 << 20))


def test_arrays_that_inflate_beyond_bounds_are_not_inflated(tmp_path: Path) -> None:
    zip_bomb(tmp_path / "summary.npz")
    assert (tmp_path / "summary.npz").stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        assert files.read_arrays(tmp_path / "summary.npz") is None
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY\x01\x00\xff\xff"])
def test_damaged_arrays_are_as_if_there_were_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "statistics-x.npz").write_bytes(content)
    assert files.read_arrays(tmp_path / "statistics-x.npz") is None


PREFIX = "phasewatt-0-20260101-000000-aaa-0-1.1-"


def point_to(run: Path, **fields: object) -> None:
    """The run's member says that its rings lie elsewhere."""
    (path,) = (run / "members").iterdir()
    files.write_json(path, files.read_json(path) | fields, checked=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"rings": "/", "prefix": "**/x"},
        {"rings": "/", "prefix": PREFIX},
        {"rings": "rings", "prefix": "*"},
        {"rings": "rings", "prefix": "../rings/" + PREFIX},
    ],
)
def test_rings_are_looked_for_only_where_they_are_put(
    fields: dict[str, str], tmp_path: Path
) -> None:
    run = make(tmp_path)
    (run / "rings").mkdir()
    RingWriter(run / "rings" / f"{PREFIX}main.ring", capacity=64).close()
    if fields["rings"] == "rings":
        fields = fields | {"rings": str(run / "rings")}
    point_to(run, **fields)
    (member,) = read_members(run)
    assert member.ring_paths(run) == []
    point_to(run, rings=str(run / "rings"), prefix=PREFIX)
    (member,) = read_members(run)
    assert [path.name for path in member.ring_paths(run)] == [f"{PREFIX}main.ring"]


@pytest.mark.parametrize("capacity", [0, 64, 1 << 19, (1 << 32) - 1])
def test_a_ring_is_as_long_as_its_header_says_and_not_longer_than_ours(
    capacity: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.ring"
    header = ring_layout.HEADER.pack(ring_layout.MAGIC, ring_layout.VERSION, capacity, 1, 1, 1)
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(12 * GIB if capacity == 64 else ring_layout.SLOTS + capacity * 32)
    with pytest.raises(StoreError, match=r"a\.ring"):
        RingReader(path, read_only=True)


def test_a_fifo_or_a_link_is_no_ring(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.ring")
    RingWriter(tmp_path / "real.ring", capacity=64).close()
    (tmp_path / "link.ring").symlink_to(tmp_path / "real.ring")
    for name in ("fifo", "link"):
        for read_only in (True, False):
            with pytest.raises(StoreError):
                RingReader(tmp_path / f"{name}.ring", read_only=read_only)


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "mu/victim/.config"},
        {"rank": "0"},
        {"pid": 1.5},
        {"begin_ns": 1 << 70},
        {"host": 5},
        {"info": []},
        {"launcher": ["a", "b"]},
        {"rings": None},
    ],
)
def test_a_member_of_other_kinds_of_fields_is_none(
    fields: dict[str, object], tmp_path: Path
) -> None:
    run = make(tmp_path)
    assert len(read_members(run)) == 1
    point_to(run, **fields)
    assert read_members(run) == []


@as_root
def test_only_the_owner_of_a_run_and_root_add_to_it(tmp_path: Path) -> None:
    run = make(tmp_path)
    os.chown(run, 1234, -1)
    for path in run.rglob("*"):
        os.chown(path, 1234, -1)
    assert len(read_members(run)) == 1
    (member,) = (run / "members").iterdir()
    os.chown(member, STRANGER, -1)
    assert read_members(run) == []
    os.chown(member, 0, -1)
    assert len(read_members(run)) == 1
    node = run / "node-evil"
    node.mkdir()
    (node / "sources.json").write_text("[]")
    assert node in RunReader(run).nodes()
    os.chown(node, STRANGER, -1)
    os.chown(node / "sources.json", STRANGER, -1)
    assert node not in RunReader(run).nodes()
    assert files.read_json(node / "sources.json") is None
    os.chown(run / layout.RUN_FILE, STRANGER, -1)
    with pytest.raises(StoreError, match="another user"):
        RunReader(run)


def test_the_run_of_a_file_follows_from_the_folders_between() -> None:
    run = Path("/runs/20260101-000000-node-x")
    for inside in ("run.json", "members/a.json", "node-h/rank-00001/cold/a.parquet"):
        assert untrusted.run_of(run / inside) == run
