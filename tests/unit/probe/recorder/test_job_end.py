"""Who ended a job of several ranks: the one that went first, not those that it took along."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from probe.model import DeviceRequest, RunStatus
from probe.recorder.job_end import outcome_of
from probe.ring.layout import EndCode
from probe.store.members import Member

MS = 1_000_000
FINISHED, FAILED = int(EndCode.FINISHED), int(EndCode.FAILED)


@dataclass
class Drain:
    ended: tuple[int, int, int] | None
    last_ns: int


@dataclass
class Watch:
    members: dict[str, Member]
    gone: dict[str, int]


def member(rank: int, error: str = "") -> Member:
    return Member(
        role="rank",
        rank=rank,
        local_rank=rank,
        local_world_size=2,
        world_size=2,
        host="a",
        boot_id="b",
        pid=100 + rank,
        start_ticks=1,
        begin_ns=1,
        rings="/dev/shm",
        prefix=f"of-{rank}.",
        request=DeviceRequest(),
        info={"error": error} if error else {},
    )


def ended(*fields: dict[str, Any]) -> Any:
    """Of ranks: ``left`` (ms, code), or ``died`` (noticed, ms), and ``heard`` (ms)."""
    members = [member(rank, process.get("error", "")) for rank, process in enumerate(fields)]
    drains = {
        Path(f"/dev/shm/of-{rank}.ring"): Drain(
            (process["left"][0] * MS, process["left"][1], process["left"][1])
            if "left" in process
            else None,
            process.get("heard", 0) * MS,
        )
        for rank, process in enumerate(fields)
    }
    gone = {
        m.file_name: process["died"] * MS
        for m, process in zip(members, fields, strict=True)
        if "died" in process
    }
    watch: Any = Watch({m.file_name: m for m in members}, gone)
    return outcome_of(drains, watch, 9000 * MS)  # type: ignore[arg-type]


def test_all_finished() -> None:
    out = ended({"left": (5000, FINISHED)}, {"left": (5100, FINISHED)})
    assert (out.status, out.end_ns, out.ended_by) == (RunStatus.FINISHED, 5100 * MS, "")


@pytest.mark.parametrize("swap", [False, True])
def test_a_rank_is_killed_and_its_launcher_ends_the_other(swap: bool) -> None:
    nodes = [{"died": 5000, "heard": 4990}, {"died": 5600, "heard": 4980}]
    out = ended(*(nodes[::-1] if swap else nodes))
    assert out.status is RunStatus.KILLED
    assert out.ended_by.startswith(f"rank {int(swap)} died")


@pytest.mark.parametrize("swap", [False, True])
def test_both_deaths_are_noticed_at_once(swap: bool) -> None:
    nodes = [{"died": 5000, "heard": 4200}, {"died": 5000, "heard": 4900}]
    out = ended(*(nodes[::-1] if swap else nodes))
    assert out.ended_by.startswith(f"rank {int(swap)} died")


def test_a_rank_is_killed_and_the_others_collective_fails_before_that_is_noticed() -> None:
    out = ended(
        {"left": (4990, FAILED), "error": "RuntimeError: closed by peer"},
        {"died": 5030, "heard": 4980},
    )
    assert out.status is RunStatus.KILLED and out.ended_by.startswith("rank 1 died")


def test_a_rank_fails_and_its_launcher_ends_the_other() -> None:
    out = ended({"died": 5400, "heard": 4900}, {"left": (5000, FAILED), "error": "ValueError: no"})
    assert out.status is RunStatus.FAILED and out.exit_code == FAILED
    assert out.ended_by == "rank 1 failed: ValueError: no"
    assert out.end_ns == 5400 * MS  # the other one was there until then


def test_a_rank_fails_and_the_others_collectives_follow() -> None:
    out = ended(
        {"left": (5003, FAILED), "error": "RuntimeError: closed by peer"},
        {"left": (5000, FAILED), "error": "ValueError: no"},
    )
    assert out.ended_by == "rank 1 failed: ValueError: no"


def test_a_process_that_was_gone_before_it_was_looked_for_ended_with_its_last_record() -> None:
    assert ended({"died": 0, "heard": 700}).end_ns == 700 * MS
