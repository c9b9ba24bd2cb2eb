"""What a run tells of its energy while it goes on, and who listens: the trainer's budget."""

from __future__ import annotations

import json
import os
import pty
import re
import statistics
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from probe.store.live import Live, LiveDevice, read_live
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.recordings import RecordedRuns, Recording, needs

pytestmark = pytest.mark.paced

TRAINING = """
import sys, time
import torch
from optimizers import Budget, Trainer

torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,)))

def loss(model, batch):
    time.sleep(0.01)
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])

result = Trainer(torch.nn.Linear(8, 2), data, loss, samples=10**6, batch_size=4,
                 device="cpu", budget=Budget(BUDGET)).fit()
print(result.ended, result.samples)
"""


OFF_J = 0.35 * 700  # when an update happened is known between two reads


def measured(live: Live) -> dict[str, LiveDevice]:
    return {d.device: d for d in live.devices if d.provenance == "measured"}


def live_at(run: Path, *watts: float) -> Live:
    """The first page that tells these powers, of the cards in their order."""
    pages: list[Live] = []

    def tells() -> bool:
        if (live := read_live(run)) is None:
            return False
        powers = [device.power_w for _, device in sorted(measured(live).items())]
        if powers != pytest.approx(watts, rel=0.05):
            return False
        pages.append(live)
        return True

    assert processes.wait_until(tells), read_live(run)
    return pages[0]


def test_the_live_page_says_what_the_rig_spent(tmp_path: Path) -> None:
    """Two counters, power that changes; at the end the last word stays."""
    rig = NvmlRig(tmp_path, gpus=2, power_w=200.0, period_s=0.1)
    began_ns = time.monotonic_ns()
    stop = tmp_path / "stop"
    process = processes.start(processes.UNTIL_FILE, tmp_path, str(stop), extra=rig.env())
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    first = live_at(run, 200.0, 200.0)
    for device in measured(first).values():
        # Begun with the first update that was seen, once the meters were open.
        assert 0 <= device.energy_j <= 200.0 * (device.time_ns - began_ns) / 1e9 + OFF_J
    rig.set_power(1, 500.0)
    live = live_at(run, 200.0, 500.0)
    devices = measured(live)
    for name, earlier in measured(first).items():
        true = rig.true_energy_j(int(name[-1]), earlier.time_ns, devices[name].time_ns)
        assert devices[name].energy_j - earlier.energy_j == pytest.approx(true, abs=OFF_J)
    assert live.energy_j() == sum(d.energy_j for d in devices.values())
    assert live.power_w() == pytest.approx(700.0, rel=0.05)
    now_ns = time.monotonic_ns()
    assert live.time_ns <= now_ns
    assert processes.wait_until(lambda: (page := read_live(run)) and page.time_ns > now_ns)
    stop.touch()
    process.communicate(timeout=processes.HUNG_S)
    assert processes.wait_until(lambda: read_live(run) is None)
    last = read_live(run, linger_s=60.0)
    assert last is not None and all(page.final for page in last.pages)
    later = sum(d.energy_j for d in last.devices if d.provenance == "measured")
    end_ns = min(d.time_ns for d in last.devices if d.provenance == "measured")
    grown = sum(rig.true_energy_j(i, devices[f"gpu{i}"].time_ns, end_ns) for i in (0, 1))
    assert later - live.energy_j() == pytest.approx(grown, abs=OFF_J)


def test_nothing_is_claimed_where_nothing_measures(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    process = processes.start(processes.UNTIL_FILE, tmp_path, str(stop))
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    # Times and a model's watts are known.
    assert processes.wait_until(lambda: (page := read_live(run)) and page.devices)
    live = read_live(run)
    stop.touch()
    process.communicate(timeout=processes.HUNG_S)
    assert live is not None
    unmeasured = not measured(live)  # else a processor with RAPL
    assert (live.energy_j() is None) == unmeasured
    assert (live.power_w() is None) == unmeasured


def _record_budget(folder: Path) -> None:
    rig = NvmlRig(folder, gpus=1, power_w=300.0, period_s=0.1)
    done = processes.run(TRAINING.replace("BUDGET", "joules=1500.0"), folder, extra=rig.env())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "energy"


BUDGET = Recording("budget", _record_budget, seconds=8.0)


@needs(BUDGET)
def test_a_training_ends_when_its_joules_are_spent(recorded_runs: RecordedRuns) -> None:
    out = processes.probe(recorded_runs[BUDGET], "report", "latest", "--format", "json")
    total = json.loads(out.stdout)["total"]
    measured_j = total["coverage"] * total["energy_j"]  # the rest is the recorder's start
    assert 1500.0 <= measured_j <= 1500.0 + 6.0 * 300.0


def test_a_training_ends_when_its_memory_is_spent(tmp_path: Path) -> None:
    done = processes.run(TRAINING.replace("BUDGET", "memory_bytes=1e6"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["memory", "4"]


SHOWN = "shown"


def _record_progress_bar(folder: Path) -> None:
    """What the training writes to its terminal, a pseudo-terminal, is kept in a file.

    It ends some ten seconds after its recorder, which may be late, sees energy.
    """
    rig = NvmlRig(folder, gpus=1, power_w=300.0, period_s=0.1)
    script = processes.write(folder / "script.py", TRAINING.replace("BUDGET", "joules=3000.0"))
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 160))
    env = processes.environment(folder / "runs", rig.env())
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.DEVNULL, stderr=theirs, env=env
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(timeout=processes.HUNG_S) == 0
    (folder / SHOWN).write_bytes(shown)


PROGRESS_BAR = Recording("progress-bar", _record_progress_bar, seconds=12.0)


@needs(PROGRESS_BAR)
def test_the_progress_bar_shows_watts_and_joules_per_sample(recorded_runs: RecordedRuns) -> None:
    shown = (recorded_runs[PROGRESS_BAR] / SHOWN).read_bytes()
    watts = [float(w) for w in re.findall(rb"W=(\d+)", shown)]
    per_sample = [float(j) for j in re.findall(rb"J/sample=([\d.]+)", shown)]
    # Watts of a second come from updates that are seen late by up to a poll: the median is right.
    assert watts and statistics.median(watts) == pytest.approx(300.0, rel=0.05), shown[-400:]
    # 4 samples in some 11 ms, on a busy machine in more.
    samples_per_s = statistics.median(float(r) for r in re.findall(rb"([\d.]+)sample/s", shown))
    assert per_sample
    assert per_sample[-1] * samples_per_s == pytest.approx(300.0, rel=0.4), shown[-400:]
