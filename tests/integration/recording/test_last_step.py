"""The last step of a process that dies: what follows a step says that it is done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.fakes import processes

STEPS = 5
SCRIPT = f"""
import os, signal, torch, probe
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with probe.watch(model):
    for step in range({STEPS}):
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        if step == {STEPS} - 1 and WHERE == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("where", "steps"), [("after", STEPS), ("before", STEPS - 1)])
def test_a_step_is_counted_if_its_optimizer_has_stepped(
    where: str, steps: int, tmp_path: Path
) -> None:
    subprocess.run(
        [sys.executable, "-c", f"WHERE = {where!r}\n{SCRIPT}"],
        env=processes.environment(tmp_path / "runs"),
        cwd=processes.ROOT,
        check=False,
    )
    run = processes.only_run(tmp_path)
    assert processes.wait_until(lambda: processes.sealed(run))
    assert json.loads((run / "run.json").read_text())["steps"] == steps
