"""When a rank is said to hang, and when not; on a virtual clock, without processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from probe.model import DeviceRequest
from probe.recorder.hangs.watch import HangWatch
from probe.recorder.job_end import Ends
from probe.ring.layout import Code
from probe.store.members import Member
from tests.fakes.virtual_clock import NS, VirtualClock

AFTER_S = 300.0
BEGIN_NS = 1000 * NS


@dataclass
class Ring:
    """What a drain knows of one rank; ``held`` is in the ring and not drained."""

    path: Path
    phase: tuple[int, int] | None = None
    last_ns: int = 0
    pending: bool = False
    ended: tuple[int, int, int] | None = None
    names: dict[int, str] = field(default_factory=dict)
    held: tuple[int, int] | None = None

    def mark(self, time_ns: int, code: int) -> None:
        self.phase, self.last_ns = (time_ns, code), time_ns


def member(rank: int, hang: Any, training: int = 1) -> Member:
    return Member(
        role="rank", rank=rank, local_rank=rank, local_world_size=2, world_size=2, host="h",
        boot_id="b", pid=2**22 + 1 + rank, start_ticks=1, begin_ns=BEGIN_NS, rings="/dev/shm",
        prefix=f"ring-{training}-{rank}-", training=training,
        request=DeviceRequest(devices=None, visible=None, order=None, local_rank=None),
        info={} if hang is None else {"hang": hang},
    )  # fmt: skip


class Job:
    """Two ranks, their rings and a watch of them."""

    def __init__(self, run: Path, *, hang: Any = None, earlier: tuple[str, ...] = ()):
        hang = {"after_s": AFTER_S, "thread": 1} if hang is None else hang
        members = [member(rank, hang) for rank in range(2)]
        self.ends = Ends({m.file_name: m for m in members}, {})
        self.rings = {
            Path(f"{m.prefix}main.ring"): Ring(Path(f"{m.prefix}main.ring")) for m in members
        }
        self.first, self.second = self.rings.values()
        self.clock = VirtualClock(BEGIN_NS)
        self.watch = HangWatch(run, self.clock, earlier)
        self.drained = 0

    def drain(self) -> None:
        self.drained += 1
        for ring in self.rings.values():
            if ring.held is not None:
                ring.mark(*ring.held)
                ring.held = None

    def look(self) -> list[str]:
        self.watch.look(self.ends, self.rings, self.drain)  # type: ignore[arg-type]
        return self.watch.warnings()

    def after(self, seconds: float) -> list[str]:
        self.clock.sleep(seconds)
        return self.look()


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_phase_and_when_it_began_are_those_of_the_last_mark(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.clock.sleep(100)  # 1.8e9 s after 1970 are 2027-01-15 08:00:00
    job.first.mark(job.clock.now_ns(), Code.COMMUNICATION)
    assert job.after(AFTER_S - 100 - 1) == []  # 299 s after the begin
    assert job.after(2) == [
        "no step for 5 min 00 s: rank 1 has been in startup since 2027-01-15 08:00:00"
    ]
    assert job.after(90) == job.watch.warnings() and len(job.watch.warnings()) == 1
    assert job.after(10)[1:] == [
        "no step for 5 min 00 s: rank 0 has been in communication since 2027-01-15 08:01:40"
    ]
    job.first.mark(job.clock.now_ns(), Code.OPTIMIZER)
    assert job.look()[1] == (
        "no step for 5 min 00 s: rank 0 was in communication since 2027-01-15 08:01:40; "
        "it went on at 2027-01-15 08:06:41"
    )
    assert job.watch.has_news() and not job.watch.has_news()


@pytest.mark.parametrize(
    ("code", "name"),
    [(Code.TAIL, "forward"), (Code.FIRST_LOADING, "data"), (64, "sampling"), (39, "other")],
)
def test_phases_that_are_not_decided_yet_have_a_name(tmp_path: Path, code: int, name: str) -> None:
    job = Job(tmp_path)
    job.first.names = {64: "sampling"}
    job.first.mark(BEGIN_NS, code)
    assert f"rank 0 has been in {name} since" in job.after(AFTER_S + 1)[0]


def test_edges_that_wait_in_the_ring_or_for_the_disk_are_no_hang(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.first.held = (BEGIN_NS + 200 * NS, Code.FORWARD)
    job.second.pending = True
    assert job.after(AFTER_S + 1) == [] and job.drained == 1


def test_a_recorder_that_took_over_counts_from_its_begin_and_keeps_what_was_said(
    tmp_path: Path,
) -> None:
    job = Job(tmp_path)
    job.clock.sleep(10 * AFTER_S)
    said = "no step for 5 min 00 s: rank 0 was in data since then"
    job.watch = HangWatch(tmp_path, job.clock, (said, "another warning"))
    assert job.after(AFTER_S - 1) == [said]
    assert len(job.after(2)) == 3


def test_a_rank_that_has_ended_or_is_gone_does_not_hang(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.first.ended = (BEGIN_NS, 0, 0)
    names = list(job.ends.members)
    job.ends = Ends(job.ends.members, {names[1]: BEGIN_NS})
    assert job.after(AFTER_S + 1) == []


def test_many_hangs_are_counted(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.second.ended = (BEGIN_NS, 0, 0)
    for _ in range(8):
        job.first.mark(job.clock.now_ns(), Code.DATA)
        job.after(AFTER_S + 1)
    lines = job.watch.warnings()
    assert len(lines) == 6 and lines[-1].startswith("no step for as long 3 more times")


@pytest.mark.parametrize(
    "hang",
    [
        (), "soon", {}, {"after_s": "x", "thread": 0},
        {"after_s": float("nan"), "thread": 0},
        {"after_s": -1, "thread": 0}, {"after_s": 1.0, "thread": None},
        {"after_s": 1.0, "thread": float("inf")},
    ],
)  # fmt: skip
def test_a_member_that_says_nonsense_is_not_followed(tmp_path: Path, hang: Any) -> None:
    assert Job(tmp_path, hang=hang).after(10 * AFTER_S) == []


def test_stacks_that_no_warning_names_are_removed(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.second.ended = (BEGIN_NS, 0, 0)
    stacks = 'Thread 0x1 (most recent call first):\n  File "/t/w.py", line 2 in work\n'
    for rank in range(3):
        path = tmp_path / f"hang-rank{rank}.txt"
        path.write_text(f"Timeout (0:05:00)!\n{stacks}")
        os.utime(path, (job.clock.wall_s(),) * 2)
    (line,) = job.after(AFTER_S + 1)
    assert line.endswith(f", at w.py:2 in work ({tmp_path.name}/hang-rank0.txt)")
    job.watch.tidy(job.ends.members.values())
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["hang-rank0.txt", "hang-rank2.txt"]  # rank 2 is no member


def test_stacks_count_that_were_written_since_the_last_edge(tmp_path: Path) -> None:
    """An evaluation that is longer than the limit has some written, too."""
    job = Job(tmp_path)
    job.second.ended = (BEGIN_NS, 0, 0)
    path = tmp_path / "hang-rank0.txt"
    for line in (2, 3):
        with path.open("a") as file:
            file.write("Timeout (0:05:00)!\nThread 0x1 (most recent call first):\n")
            file.write(f'  File "/t/w.py", line {line} in work\n\n')
    os.utime(path, (job.clock.wall_s() + 5,) * 2)
    job.clock.sleep(10)
    job.first.mark(job.clock.now_ns(), Code.FORWARD)
    assert "w.py" not in job.after(AFTER_S + 1)[0]
    os.utime(path, (job.clock.wall_s(),) * 2)
    assert "at w.py:3 in work" in job.look()[0]
