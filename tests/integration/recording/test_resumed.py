"""A training that was killed and is resumed by hand: one run, whose attempts add up."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import numpy as np
import pytest

from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.paced_run import report_of

pytestmark = pytest.mark.paced

LOOP = """
import os, signal, sys, time
import torch, probe
from tests.fakes.nvml import NvmlRig
rig = NvmlRig.attach(os.environ["NVML_RIG"])
rig.set_power(0, float(sys.argv[1]))
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
with probe.watch(model, optimizer, name="resumed", resume=sys.argv[4] or None) as run:
    for _ in range(int(sys.argv[2])):
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.015)
        run.log(samples=32)
    print(run.path)
    rig.set_power(0, 50.0)
    if sys.argv[3] == "killed":
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_attempts_add_up(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=50.0, period_s=0.1)
    path = ""
    for watts, steps, end in ((200, 150, "killed"), (300, 170, "killed"), (100, 130, "finished")):
        done = processes.run(
            f"import sys\nsys.path.insert(0, {str(processes.ROOT)!r})\n{LOOP}",
            tmp_path,
            str(watts),
            str(steps),
            end,
            path,
            extra=rig.env(),
        )
        assert done.returncode == (0 if end == "finished" else -signal.SIGKILL), done.stderr
        assert not path or path == done.stdout.strip(), done.stderr  # it is the same run
        path = done.stdout.strip()
        processes.status_at_end(Path(path))
    report = report_of(tmp_path)
    assert report["run"]["status"] == "finished"
    # The step that a kill cuts off is not closed.
    assert 150 + 170 + 130 - 2 <= report["run"]["steps"] <= 150 + 170 + 130
    assert report["values"]["samples"]["sum"] == 32 * (150 + 170 + 130)
    attempts = report["attempts"]
    assert [row["attempt"] for row in attempts] == [0, 1, 2]
    assert "died" in attempts[0]["ended_by"] and not attempts[2]["ended_by"]
    reader = RunReader(Path(path))
    (counter,) = (
        row
        for row in reader.series()
        if (row.source.device, row.source.quantity) == ("gpu0", "energy")
    )
    # Between two reads energy is spread evenly. They are far apart where nothing is recorded, where
    # a recorder begins late, and where a stable counter is read at one update in nine.
    reads_ns = counter.time_ns
    used_j = [rig.true_energy_j(0, int(reads_ns[0]), int(at_ns)) for at_ns in reads_ns]
    for row in attempts:
        ends_ns = [reader.begin_ns + round(1e9 * row[end]) for end in ("begin_s", "end_s")]
        begin_j, end_j = np.interp(ends_ns, reads_ns, used_j)
        # At both ends power changes by 250 W, and the counter is up to a period behind. What was
        # used before the first read of all is extrapolated.
        before_j = max(0, reads_ns[0] - ends_ns[0]) / 1e9 * 200
        expected = pytest.approx(end_j - begin_j, rel=0.02, abs=2 * 0.1 * 250 + before_j)
        assert row["energy_j"] == expected, row
    # The counter goes on where nobody reads it: between the attempts, too.
    truth = rig.true_energy_j(0, reader.begin_ns, reader.end_ns())
    assert report["total"]["energy_j"] == pytest.approx(truth, rel=0.02)
    assert sum(row["energy_j"] for row in attempts) < report["total"]["energy_j"]
    rows = [row for row in report["phases"] if row["device"] == "gpu0"]
    joules = sum(row["energy_j"] for row in rows if row["energy_j"] is not None)
    assert joules == pytest.approx(report["total"]["energy_j"], rel=1e-9)
    assert any(row["phase"] == "restart" for row in rows)


@pytest.mark.full
def test_what_cannot_be_continued_is_a_run_of_its_own(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=50.0)
    code = f"import sys\nsys.path.insert(0, {str(processes.ROOT)!r})\n{LOOP}"
    first = processes.run(code, tmp_path, "100", "5", "finished", "", extra=rig.env())
    path = first.stdout.strip()
    processes.status_at_end(Path(path))
    for resume, why in ((path, "has finished"), (str(tmp_path / "nowhere"), "is no run of yours")):
        again = processes.run(code, tmp_path, "100", "5", "finished", resume, extra=rig.env())
        assert again.returncode == 0 and again.stdout.strip() != path
        assert re.search(f"not continued: .*{why}", again.stderr), again.stderr
