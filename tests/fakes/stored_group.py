"""A group written by hand: constant power, and trainings between known instants."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from probe.model import DeviceRequest, RunStatus
from probe.store import files, layout
from probe.store.members import Member
from tests.fakes.stored_run import NS, energy_source, stored_run, write_steps

BEGIN_NS = 1000 * NS
POWER_W = 250.0


def member(run: Path, number: int, begin_ns: int = BEGIN_NS, *, role: str = "rank") -> Member:
    """A process that is gone, its file written."""
    made = Member(
        role=role,
        rank=0 if role == "rank" else -1,
        local_rank=None,
        local_world_size=1,
        world_size=1,
        host=layout.node_name(),
        boot_id="another boot",
        pid=4_000_000 + number,
        start_ticks=1,
        begin_ns=begin_ns,
        rings="/dev/shm",
        prefix=f"phasewatt-0-none-0-{number}.1-",
        request=DeviceRequest(),
        training=max(1, number),
    )
    made.write(run)
    return made


def stored_group(
    directory: Path,
    trainings_s: Sequence[tuple[float, float]],
    seconds: float = 100.0,
    run_id: str = "20260101-000000-made",
) -> Path:
    """Its directory.

    Args:
        trainings_s: begin and end of each, in seconds since the command's begin.
        seconds: that the command took.
    """
    times = np.arange(BEGIN_NS - NS, BEGIN_NS + int((seconds + 1) * NS), NS // 10)
    raw = (times - times[0]) / NS * POWER_W * 1e3  # mJ
    run = stored_run(
        directory, [(energy_source(0), (times, raw))], seconds, run_id=run_id, name="sweep"
    )
    member(run, 0, role="launcher")
    for number, (begin_s, end_s) in enumerate(trainings_s, 1):
        begin_ns, end_ns = (BEGIN_NS + int(at * NS) for at in (begin_s, end_s))
        folder = layout.training_dir(run, number)
        os.mkdir(folder)
        steps = int((end_s - begin_s) * 10)
        files.write_json(
            folder / layout.RUN_FILE,
            files.read_json(run / layout.RUN_FILE)
            | {
                "id": f"{run.name}/{number}",
                "group": run.name,
                "name": "train",
                "status": RunStatus.FINISHED,
                "begin_ns": begin_ns,
                "end_ns": end_ns,
                "steps": steps,
                "command": ["train.py", "--trial", str(number)],
                "anchor": {"monotonic_ns": begin_ns, "wall_ns": begin_ns},
            },
        )
        member(run, number, begin_ns)
        write_steps(run if number == 1 else folder, begin_ns, steps)
    return run
