"""What a user may do with `watch`: decorate, re-enter, repeat, leave out of order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probe.model import RunStatus
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.processes import only_run


def test_both_forms_of_the_decorator(tmp_path: Path) -> None:
    result = processes.run(
        """
    import time, probe
    @probe.watch(name="with")
    def one(x):
        with probe.phase("work"):
            time.sleep(0.05)
        return x + 1
    @probe.watch
    def two():
        return "two"
    print(one(1), one(2), two(), one.__name__)
    """,
        tmp_path,
    )
    assert result.stdout == "2 3 two one\n", result.stderr
    runs = [p.parent for p in (tmp_path / "runs").glob("*/run.json")]
    assert len(runs) == 3
    assert {processes.status_at_end(run) for run in runs} == {RunStatus.FINISHED}


def test_re_entering_gives_the_same_run_and_any_order_of_leaving_ends_it_once(
    tmp_path: Path,
) -> None:
    result = processes.run(
        """
    import time, probe
    a, b = probe.watch(name="outer"), probe.watch(name="inner")
    first, second = a.__enter__(), b.__enter__()
    assert first is second
    a.__exit__(None, None, None)          # out of order
    with second.phase("late"):
        time.sleep(0.05)
    b.__exit__(None, None, None)
    with probe.phase("after the end"):    # no run is active: nothing happens
        pass
    """,
        tmp_path,
    )
    assert result.returncode == 0, result.stderr
    reader = RunReader(only_run(tmp_path))
    names = set(reader.names(0, reader.rings(0)[0][0]).values())
    assert "late" in names
    assert "after the end" not in names


def test_two_runs_one_after_another_in_one_process(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    result = processes.run(
        """
    import torch, probe
    model = torch.nn.Linear(4, 4)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for name, steps in (("one", 10), ("two", 20)):
        with probe.watch(model, opt, name=name) as run:
            for _ in range(steps):
                model(torch.ones(2, 4)).sum().backward(); opt.step(); opt.zero_grad()
                run.log(loss=0.5, samples=2)
        report = run.report()
        print(report.run.steps, report.values["samples"].sum)
    assert torch.nn.Linear.__call__ is torch.nn.Module.__call__
    """,
        tmp_path,
    )
    assert result.stdout == "10 20.0\n20 40.0\n", result.stderr
    for name in ("one", "two"):
        out = processes.probe(tmp_path, "report", name, "--format", "json")
        assert json.loads(out.stdout)["run"]["name"] == name


def test_a_run_that_is_never_left_ends_with_the_process(tmp_path: Path) -> None:
    result = processes.run(
        """
    import time, probe
    run = probe.watch(name="open").__enter__()
    with run.phase("work"):
        time.sleep(0.1)
    """,
        tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert processes.status_at_end(only_run(tmp_path)) is RunStatus.FINISHED


def test_a_recorder_that_cannot_start_is_one_line_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "broken" / "pyarrow").mkdir(parents=True)
    (tmp_path / "broken" / "pyarrow" / "__init__.py").write_text("raise ImportError('no arrow')")
    result = processes.run(
        """
    import probe, time
    with probe.watch() as run:
        with run.phase("work"):
            time.sleep(0.2)
    print("trained")
    """,
        tmp_path,
        extra={"PYTHONPATH": f"{tmp_path / 'broken'}:{processes.ROOT}"},
    )
    assert result.stdout == "trained\n"
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert "recorder.log" in result.stderr
    for ring in Path("/dev/shm").glob(f"phasewatt-*{only_run(tmp_path).name}*"):
        ring.unlink()


def test_the_example_of_the_design_without_a_single_argument(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    result = processes.run(
        """
    import torch, probe
    from torch.utils.data import DataLoader, TensorDataset
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8)
    with probe.watch() as run:
        for (x,) in loader:
            loss = model(x).square().mean()
            loss.backward(); optimizer.step(); optimizer.zero_grad()
            run.log(loss=loss, samples=len(x))
        with run.phase("eval"):
            with torch.no_grad():
                model(x)
    print(run.report().to_json())
    """,
        tmp_path,
    )
    report = json.loads(result.stdout)
    rows = {row["phase"]: row for row in report["phases"]}
    assert {k: rows[k]["count"] for k in ("forward", "backward", "optimizer", "eval")} == {
        "forward": 8,
        "backward": 8,
        "optimizer": 8,
        "eval": 1,
    }
    assert report["run"]["steps"] == 8
    assert report["values"]["samples"]["sum"] == 64
    total = sum(row["time_s"] for row in report["phases"])
    assert abs(total - report["run"]["duration_s"]) < 1e-6


def test_pandas_is_loaded_by_a_machine_s_first_recorder_at_most(tmp_path: Path) -> None:
    """What CodeCarbon says is kept, and pyarrow does not look for pandas."""
    code = (
        processes.AWAIT_RECORDER
        + """
import probe
from probe.recorder.spawn import signed
for _ in range(2):
    with probe.watch() as run:
        await_source(run, "codecarbon:cpu")
        end = time.monotonic() + 240.0
        while not json.loads((run.path / "run.json").read_text()).get("carbon"):
            assert time.monotonic() < end, "no carbon intensity after 240 s"
            time.sleep(0.05)
        pid, _ = signed(run.path, 1)
        libraries = open(f"/proc/{pid}/maps").read()
        print("pyarrow" in libraries, "pandas" in libraries)
"""
    )
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    result = processes.run(code, tmp_path, extra=cache)
    assert result.stdout.splitlines() == ["True True", "True False"], result.stderr
