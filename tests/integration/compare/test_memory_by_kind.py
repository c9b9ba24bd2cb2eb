"""Memory by kind of module in the paper's tables, of trainings whose modules take what is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from probe.compare.paper.tables import tables
from tests.fakes import processes
from tests.fakes.allocator import MIB

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.alone

# Attention touches HOLDS MiB while it runs and gives them back. With an allocator's stand-in each
# module moves it instead, by what it keeps until backward.
LOOP = """
import mmap, sys, time
import probe, torch
from torch import nn
from probe.instrument.cuda_memory import CudaMemory
from tests.fakes.allocator import MIB, Allocator

name, holds, fake = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "allocator"
allocator = Allocator()

def touched(mib):
    held = mmap.mmap(-1, mib << 20)
    for place in range(0, mib << 20, 4096):
        held[place] = 1
    return held

class Taking(nn.Module):
    def __init__(self, mib):
        super().__init__()
        self.mib, self.weight = mib, nn.Linear(4, 4)

    def forward(self, x):
        if fake:
            now = allocator.current // MIB
            allocator.to(now + self.mib, through=now + 2 * self.mib)
        else:
            held = touched(self.mib)
            time.sleep(0.04)
            held.close()
        return self.weight(x)

class Attention(Taking):
    pass

class Mlp(Taking):
    pass

net = nn.Sequential(Attention(holds), Mlp(8), Attention(holds))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with probe.watch(net, optimizer, name=name, modules=True) as run:
    if fake:
        engine = run._engine
        engine._memory = CudaMemory(allocator.statistics, engine.ring)
        engine._memory._pause_ns = 0
        engine._machine.enrich(engine._memory.allocated, None)
    for step in range(40):
        loss = net(torch.ones(1, 4)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        allocator.to(100)
        run.log(samples=1)
"""


def recorded(folder: Path, how: str, **holds: int) -> dict[str, object]:
    for name, mib in holds.items():
        done = processes.run(LOOP, folder, name, str(mib), how)
        assert done.returncode == 0, done.stderr
    made = tables("plain", "more", directory=folder / "runs")
    (patterns,) = [each for each in made.tables if "architecture patterns" in each.title]
    return {row.what: row for row in patterns.rows}


@pytest.mark.full
def test_a_kind_that_touches_more_has_the_higher_peak(tmp_path: Path) -> None:
    rows = recorded(tmp_path, "process", plain=96, more=192)
    attention, mlp = rows["attention: peak resident"], rows["mlp: peak resident"]
    for side, mib in (("base", 96), ("other", 192)):
        above = getattr(attention, side) - getattr(mlp, side)
        assert above * 1e9 == pytest.approx((mib - 8) * MIB, rel=0.05)
    assert "attention: kept by one forward" not in rows


def test_a_kind_keeps_what_its_forward_adds_to_the_allocator(tmp_path: Path) -> None:
    rows = recorded(tmp_path, "allocator", plain=200, more=50)
    kept, of_mlp = rows["attention: kept by one forward"], rows["mlp: kept by one forward"]
    assert (kept.unit, kept.base, kept.other) == ("MB", 200 * MIB / 1e6, 50 * MIB / 1e6)
    assert of_mlp.base == of_mlp.other == 8 * MIB / 1e6
    # The second attention stands on all that came before it.
    peak = rows["attention: peak allocated"]
    assert peak.base == (100 + 200 + 8 + 2 * 200) * MIB / 1e9
    assert peak.other == (100 + 50 + 8 + 2 * 50) * MIB / 1e9
