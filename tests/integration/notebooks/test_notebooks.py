"""Trainings in real Jupyter kernels: cells, re-runs, new models, interrupts, ``%%watch``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import probe
from probe.model import RunStatus
from probe.report.model import Report
from tests.fakes import processes

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")

SETUP = """
import time, torch, probe
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=8)
def make():
    model = torch.nn.Linear(8, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)
def train(model, optimizer, batches=8, pause=0.0):
    for number, (x, y) in enumerate(loader):
        if number == batches:
            break
        (model(x) - y).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(pause)
model, optimizer = make()
"""


class Notebook:
    """A notebook with a kernel of its own; the cells share its memory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("PROBE_DIR", str(folder / "runs"))
        monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
        monkeypatch.setenv("JPY_SESSION_NAME", str(folder / "my_study.ipynb"))
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        self.folder = folder
        self._notebook = nbformat.v4.new_notebook()
        self._client = nbclient.NotebookClient(
            self._notebook, timeout=240, resources={"metadata": {"path": str(folder)}}
        )

    def run(self, *cells: str, interrupted: bool = False) -> list[list[dict[str, Any]]]:
        """The outputs of each cell. ``interrupted``: the last one is, once it has trained."""
        self._notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        # In a thread, because other tests of this process have a running event loop. The thread is
        # a daemon, so that this process can end although a kernel hangs.
        outcome: Future[None] = Future()
        threading.Thread(target=self._run_all, args=(interrupted, outcome), daemon=True).start()
        outcome.result(timeout=processes.HUNG_S)
        return [cell.outputs for cell in self._notebook.cells]

    def _run_all(self, interrupted: bool, outcome: Future[None]) -> None:
        try:
            outcome.set_result(asyncio.run(self._run(interrupted)))
        except BaseException as error:
            outcome.set_exception(error)

    async def _run(self, interrupted: bool) -> None:
        async with self._client.async_setup_kernel():
            last = len(self._notebook.cells) - 1
            for number, cell in enumerate(self._notebook.cells):
                if interrupted and number == last:
                    threading.Thread(target=self._interrupt, daemon=True).start()
                await self._client.async_execute_cell(cell, number)

    def _interrupt(self) -> None:
        mark = self.folder / "trains"
        while not mark.exists():
            time.sleep(0.05)
        os.kill(int(mark.read_text()), signal.SIGINT)


def shown(outputs: list[dict[str, Any]], kind: str = "text/html") -> str:
    """What a cell shows in this form."""
    return "\n".join(output["data"].get(kind, "") for output in outputs if "data" in output)


def printed(outputs: list[dict[str, Any]]) -> str:
    return "".join(output.get("text", "") for output in outputs)


def steps(outputs: list[dict[str, Any]]) -> Any:
    """What the cell printed as JSON."""
    return json.loads(printed(outputs).splitlines()[-1])


def test_cells_that_are_run_again_and_models_that_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = (
        "print(json.dumps([r.run.steps, r.run.status, r.run.name, "
        "[line for line in r.warnings if 'no energy meter' not in line]]))"
    )
    outputs = Notebook(tmp_path, monkeypatch).run(
        SETUP,
        "run = probe.start(model, optimizer)",
        "train(model, optimizer)",
        "train(model, optimizer)",
        "run = probe.start(model, optimizer)",  # the cell is run again
        "model, optimizer = make()",
        "train(model, optimizer)",
        "run",
        "run.close(); run",
        f"import json; r = run.report(); {facts}",
        "run = probe.start(); train(model, optimizer); run.close()",
        f"r = run.report(); {facts}",
        "probe.open_report()",
    )
    assert "is already being recorded" in printed(outputs[4])
    assert "It goes on" in shown(outputs[7]) and "<script" not in shown(outputs[7])
    for word in ("forward", "backward", "optimizer", "24 steps"):
        assert word in shown(outputs[8]), word
    assert "It goes on" not in shown(outputs[8])
    assert steps(outputs[9]) == [24, "finished", "my_study", []]
    assert steps(outputs[11]) == [8, "finished", "my_study", []]
    assert "8 steps" in shown(outputs[12]) and "8 steps" in shown(outputs[12], "text/plain")


@pytest.mark.full
def test_the_magic_watches_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = Notebook(tmp_path, monkeypatch).run(
        SETUP,
        "%load_ext probe",
        "%%watch first\ntrain(model, optimizer)\nhere = 3",
        "assert here == 3\n%reload_ext probe",
        "%%watch --colour\ntrain(model, optimizer)",
    )
    assert "8 steps" in shown(outputs[2]) and "first" in shown(outputs[2])
    assert "write %%watch [NAME]" in printed(outputs[4])
    assert len([path for path in (tmp_path / "runs").iterdir() if path.is_dir()]) == 1


@pytest.mark.full
def test_a_cell_that_is_interrupted_and_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = Notebook(tmp_path, monkeypatch)
    notebook._client.allow_errors = True
    outputs = notebook.run(
        SETUP,
        "%load_ext probe\nimport os",
        "%%watch failing\ntrain(model, optimizer, 3)\nraise ValueError('no such layer')",
        "print(probe.open_report())",
        "%%watch stopped\ntrain(model, optimizer, 2)\nopen('trains', 'w').write(str(os.getpid()))\n"
        "time.sleep(200)",
        interrupted=True,
    )
    assert any(output.get("ename") == "ValueError" for output in outputs[2])
    assert "3 steps" in shown(outputs[2])
    assert "no such layer" in printed(outputs[3])
    assert any(output.get("ename") == "KeyboardInterrupt" for output in outputs[4])
    assert "2 steps" in shown(outputs[4]) and "KeyboardInterrupt" in shown(outputs[4])


@pytest.mark.full
def test_a_run_in_a_with_block_per_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "with probe.watch(name='cell') as run:\n    train(model, optimizer)\nprint(run.report())"
    outputs = Notebook(tmp_path, monkeypatch).run(SETUP, cell, cell, "probe.start()")
    for output in outputs[1:3]:
        assert "8 steps" in printed(output)
    assert len([path for path in (tmp_path / "runs").iterdir() if path.is_dir()]) == 3
    assert "It goes on" in shown(outputs[3])


@pytest.mark.full
def test_a_kernel_that_is_killed_leaves_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = Notebook(tmp_path, monkeypatch)
    with pytest.raises(nbclient.exceptions.DeadKernelError):
        notebook.run(
            SETUP,
            "run = probe.start(model, optimizer)",
            "train(model, optimizer, pause=0.05)",
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        )
    run = processes.only_run(tmp_path)
    assert processes.status_at_end(run) == RunStatus.KILLED
    report = probe.open_report(run.name, str(run.parent))
    assert isinstance(report, Report) and report.run.steps == 8
