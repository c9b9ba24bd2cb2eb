"""The commands, and bad input: one clear line that says what to do, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from probe.store import files
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.processes import PLAIN, only_run, wait_until
from tests.fakes.recordings import RecordedRuns, Recording, needs


def one_line(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert result.returncode == code, result
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


def _record(folder: Path) -> None:
    done = processes.run(PLAIN, folder, "1.0")
    assert done.returncode == 0, done.stderr


SHORT = Recording("short-plain", _record, seconds=1.0)


@pytest.fixture
def recorded(recorded_runs: RecordedRuns) -> Path:
    """A directory with one short finished run; other tests look at it, too."""
    return recorded_runs[SHORT]


@needs(SHORT)
def test_report_and_ls_of_a_run(recorded: Path) -> None:
    run = only_run(recorded)
    for reference in ("latest", run.name, run.name[:15], "plain", str(run)):
        out = processes.probe(recorded, "report", reference)
        assert out.returncode == 0, out.stderr
        assert "compute" in out.stdout
    listing = processes.probe(recorded, "ls")
    assert run.name in listing.stdout
    assert "finished" in listing.stdout
    brief = processes.probe(recorded, "report", "--brief").stdout
    assert len(brief.splitlines()) == 5 and "compute" in brief
    data = json.loads(processes.probe(recorded, "report", "--format", "json").stdout)
    assert data["schema"] == 1
    assert set(data) >= {"run", "total", "sources", "phases", "groups", "overhead", "warnings"}
    assert set(data["run"]) >= {
        "id",
        "name",
        "status",
        "started",
        "duration_s",
        "host",
        "ranks",
        "steps",
    }


@needs(SHORT)
def test_report_into_a_file(recorded: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    out = processes.probe(recorded, "report", "latest", "--format", "json", "-o", str(target))
    assert out.returncode == 0
    assert json.loads(target.read_text())["schema"] == 1
    one_line(processes.probe(recorded, "report", "-o", "/proc/nothing/x"), 1, "cannot write")


@needs(SHORT)
def test_unknown_things(recorded: Path, tmp_path: Path) -> None:
    one_line(processes.probe(recorded, "report", "nobody"), 1, "nobody", "probe ls")
    one_line(processes.probe(tmp_path, "report", "latest"), 1, "there are no runs", "probe run")
    one_line(processes.probe(recorded, "report", "latest", "--format", "xml"), 1, "text")
    no_file = processes.probe(recorded, "report", "latest", "--intensity", "nosuch.csv")
    one_line(no_file, 1, "there is no file", "nosuch.csv")
    no_number = processes.probe(recorded, "report", "latest", "--intensity", "much")
    one_line(no_number, 1, "write a number per kWh")
    one_line(processes.probe(recorded, "nonsense"), 1, "nonsense")
    one_line(processes.probe(recorded, "run", "--"), 1, "nothing to run")
    one_line(processes.probe(recorded, "run", "--", "no-such-command-here"), 1, "no-such-command")
    one_line(processes.probe(tmp_path, "ls"), 2, "no runs")
    one_line(processes.probe(tmp_path, "ls", str(tmp_path / "nowhere")), 1, "no directory")


@needs(SHORT)
def test_damaged_and_newer_runs(recorded: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "x"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{ not json")
    one_line(processes.probe(tmp_path, "report", "x"), 1, "damaged")
    value = json.loads((only_run(recorded) / "run.json").read_text())
    files.write_json(run / "run.json", value | {"schema": 99})
    one_line(processes.probe(tmp_path, "report", "x"), 1, "newer", "pip install -U")
    assert "newer" in processes.probe(tmp_path, "ls").stdout
    files.write_json(run / "run.json", value | {"id": "x", "status": "running"})
    one_line(processes.probe(tmp_path, "report", "x"), 2, "nothing yet")
    (run / "run.json").unlink()
    one_line(processes.probe(tmp_path, "report", str(run)), 1, "not a run directory")


@needs(SHORT)
def test_a_torn_segment_is_read_up_to_the_tear(recorded: Path, tmp_path: Path) -> None:
    import shutil

    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = tmp_path / "runs" / "torn"
    shutil.copytree(only_run(recorded), copy)
    cold = next((copy / "rank-00000" / "cold").glob("edges-*.parquet"))
    table = pq.read_table(cold)
    hot = copy / "rank-00000" / "hot" / f"{cold.stem}.arrows"
    hot.parent.mkdir(exist_ok=True)
    with pa.OSFile(str(hot), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=20)
    cold.unlink()
    whole = len(RunReader(copy).rings(0)[0][1])
    with open(hot, "r+b") as file:
        file.truncate(hot.stat().st_size * 2 // 3)
    torn = len(RunReader(copy).rings(0)[0][1])
    assert 0 < torn < whole == table.num_rows
    assert processes.probe(tmp_path, "report", "torn").returncode == 0


def test_probe_run_hands_everything_through(tmp_path: Path) -> None:
    script = processes.write(
        tmp_path / "echo.py",
        """
    import sys
    print("args", sys.argv[1:])
    print("in", sys.stdin.read())
    print("err", file=sys.stderr)
    sys.exit(7)
    """,
    )
    out = processes.probe(
        tmp_path,
        "run",
        "--quiet",
        "--",
        sys.executable,
        str(script),
        "-x",
        "--",
        "a b",
        input="hello",
    )
    assert out.returncode == 7
    assert out.stdout == "args ['-x', '--', 'a b']\nin hello\n"
    assert out.stderr == "err\n"
    assert processes.status_at_end(only_run(tmp_path)) == "failed"
    reader = RunReader(only_run(tmp_path))
    assert reader.meta["exit_code"] == 7
    assert reader.meta["name"] == "echo"


def test_probe_run_hands_signals_through_and_dies_of_the_same(tmp_path: Path) -> None:
    script = processes.write(
        tmp_path / "wait.py",
        """
    import signal, sys, time
    signal.signal(signal.SIGUSR1, lambda *_: print("usr1", flush=True))
    print("ready", flush=True)
    for _ in range(100): time.sleep(0.1)
    """,
    )
    process = processes.closed_after_test(
        subprocess.Popen(
            [sys.executable, "-m", "probe", "run", "--", sys.executable, str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=processes.environment(tmp_path / "runs"),
            cwd=tmp_path,
        )
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "usr1\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=processes.HUNG_S) == -signal.SIGTERM
    process.stdout.close()
    assert processes.status_at_end(only_run(tmp_path)) == "killed"


def test_probe_run_leaves_a_users_sitecustomize_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sitecustomize.py").write_text("import builtins; builtins.MINE = 42\n")
    extra = {"PYTHONPATH": f"{tmp_path / 'mine'}{os.pathsep}{processes.ROOT}"}
    out = processes.probe(
        tmp_path,
        "run",
        "--quiet",
        "--",
        sys.executable,
        "-c",
        "import sitecustomize; print(MINE, sitecustomize.__file__)",
        extra=extra,
    )
    assert out.stdout == f"42 {tmp_path / 'mine' / 'sitecustomize.py'}\n", out.stderr


TRAIN = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
opt = torch.optim.AdamW(model.parameters())
for _ in range(30):
    x = torch.randn(32, 64)
    loss = model(x).square().mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
"""


@pytest.mark.parametrize(
    "how", ["script", pytest.param("module", marks=pytest.mark.full), "torchrun"]
)
def test_probe_run_finds_the_phases_of_an_untouched_script(how: str, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    processes.write(tmp_path / "pkg" / "__main__.py", TRAIN)
    script = processes.write(tmp_path / "train.py", TRAIN)
    command = {
        "script": [sys.executable, str(script)],
        "module": [sys.executable, "-m", "pkg"],
        "torchrun": [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc_per_node",
            "2",
            str(script),
        ],
    }[how]
    out = processes.probe(tmp_path, "run", "--", *command)
    assert out.returncode == 0, out.stderr
    assert processes.status_at_end(only_run(tmp_path)) == "finished"
    data = json.loads(processes.probe(tmp_path, "report", "--format", "json").stdout)
    assert data["run"]["steps"] == 30
    assert data["run"]["ranks"] == (2 if how == "torchrun" else 1)
    assert {"forward", "backward", "optimizer"} <= {row["phase"] for row in data["phases"]}
    assert "forward" in out.stderr  # the report at the end


def test_doctor_says_what_is_missing_and_why(tmp_path: Path) -> None:
    out = processes.probe(tmp_path, "doctor")
    assert out.returncode == 0, out.stderr
    assert "NVIDIA" in out.stdout
    checks = json.loads(processes.probe(tmp_path, "doctor", "--json").stdout)
    for sensor in checks["sensors"]:
        assert sensor["sources"] or sensor["absent"]
        assert all(absence["reason"] for absence in sensor["absent"])


def test_a_wrong_country_is_refused_at_the_start(tmp_path: Path) -> None:
    code = """
    import probe
    try:
        probe.watch(country="France")
    except probe.ProbeError as error:
        print(error)
    """
    result = processes.run(code, tmp_path)
    assert "alpha-3" in result.stdout


def test_ls_shows_a_live_run(tmp_path: Path) -> None:
    process = processes.start(PLAIN, tmp_path, "7.0")
    assert process.stdout is not None
    process.stdout.readline()
    assert wait_until(lambda: "running" in processes.probe(tmp_path, "ls").stdout)
    live = processes.probe(tmp_path, "report", "latest")
    assert "still going on" in live.stdout, live.stderr
    process.stdout.close()
    process.wait()
    assert wait_until(lambda: "finished" in processes.probe(tmp_path, "ls").stdout)
