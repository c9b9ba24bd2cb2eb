"""Edges of the public API: never entered, started, closed early, nothing can be recorded."""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from probe import Run
from probe.model import RunStatus
from probe.report.build.empty import empty
from probe.report.formats import formats
from probe.report.model import Overhead, RecorderUse
from probe.session.unwatched import UnwatchedRun, WatchedRun
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.processes import AWAIT_RECORDER, only_run


def test_both_kinds_of_run_have_the_whole_surface() -> None:
    names = {name for name in vars(WatchedRun) if not name.startswith("_")}
    assert names >= {"id", "path", "phase", "log", "live", "report", "close"}
    unwatched = UnwatchedRun("no space left", Path("/runs"), 1)
    for name in names:
        assert name in Run.__annotations__ or hasattr(Run, name)
        assert hasattr(unwatched, name)
        if callable(getattr(unwatched, name)):
            ours, theirs = (
                list(inspect.signature(getattr(kind, name)).parameters)
                for kind in (Run, UnwatchedRun)
            )
            assert ours == theirs, name


@pytest.mark.parametrize("name", sorted(formats()))
def test_a_report_without_a_run_has_every_format(name: str) -> None:
    content = empty("nothing was recorded: no space left").render(name)
    assert content


def test_a_script_goes_on_where_nothing_can_be_recorded(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a directory")
    result = processes.run(
        """
    import json, probe
    with probe.watch(name="x") as run:
        with run.phase("work"):
            run.log(loss=1.0)
        run.log("loss", 2.0)
    print(run.live(), repr(run.id), run.path.name, run.path.exists())
    report = json.loads(run.report().to_json())
    print(report["warnings"][0].partition(":")[0], report["total"]["energy_j"])
    print(run.report())
    """,
        tmp_path,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:2] == ["None '' not-recorded False", "nothing was recorded None"]
    assert "nothing was recorded: cannot write runs" in result.stdout
    assert len(result.stderr.splitlines()) == 1


def test_start_begins_at_once_and_close_ends(tmp_path: Path) -> None:
    result = processes.run(
        AWAIT_RECORDER
        + """
import os, probe
first = probe.start(name="first")
await_recorder(first)
again = probe.start(name="again")
assert again is first
child = os.fork()
if not child:
    inert = probe.start(name="child")
    with inert.phase("child"):
        inert.log(loss=1.0)
    inert.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with probe.watch() as inner:
    assert inner is first
assert not first.closed
with probe.phase("work"):
    time.sleep(0.05)
first.close()
second = probe.start(name="second")
assert second is not first
await_recorder(second)
print(first.report().to_dict()["run"]["status"])
""",
        tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "finished\n"
    (line,) = result.stderr.splitlines()
    assert "is already being recorded" in line
    runs = {p.parent for p in (tmp_path / "runs").glob("*/run.json")}
    assert {json.loads((run / "run.json").read_text())["name"] for run in runs} == {
        "first",
        "second",
    }
    assert {processes.status_at_end(run) for run in runs} == {RunStatus.FINISHED}


def test_a_watch_that_is_never_entered_says_so(tmp_path: Path) -> None:
    result = processes.run(
        """
    import probe
    run = probe.watch(name="x")
    try:
        run.report()
    except AttributeError as error:
        print(error)
    """,
        tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert "with probe.watch" in result.stdout and "probe.start" in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("phasewatt: nothing was recorded")


def test_words_that_log_does_not_take_are_a_warning(tmp_path: Path) -> None:
    result = processes.run(
        """
    import probe
    with probe.watch() as run:
        for _ in range(3):
            run.log("loss", 1.0)
            run.log({"loss": 2.0}, samples=8)
    data = run.report().to_dict()
    print(data["values"]["loss"]["last"], data["values"]["samples"]["sum"])
    print(sum("log() takes numbers by name" in line for line in data["warnings"]))
    """,
        tmp_path,
    )
    assert result.stdout == "2.0 24.0\n1\n", result.stderr


def test_a_run_of_a_moment_is_finished(tmp_path: Path) -> None:
    """On a busy machine the recorder comes up after the run has ended: nobody is alarmed."""
    result = processes.run(
        """
    import os, time
    os.nice(-5) if os.geteuid() == 0 else None
    import probe
    for _ in range(5):
        with probe.watch() as run:
            with run.phase("work"):
                time.sleep(0.05)
        print(run.report().to_dict()["run"]["status"])
    """,
        tmp_path,
        timeout=processes.HUNG_S,
    )
    assert result.stdout == "finished\n" * 5
    assert result.stderr == ""


def test_the_recorders_start_is_counted_apart(tmp_path: Path) -> None:
    result = processes.run(processes.PLAIN, tmp_path, "1.0")
    assert result.returncode == 0, result.stderr
    run = only_run(tmp_path)
    assert processes.status_at_end(run) is RunStatus.FINISHED
    recorder = json.loads((run / "run.json").read_text())["recorder"]
    assert 0 < recorder["start_cpu_s"] <= recorder["cpu_s"]
    used = RecorderUse(pid=1, start_ticks=1, epoch=1, cpu_s=3.0, start_cpu_s=1.0, wall_s=100.0)
    report = replace(
        empty(""), overhead=Overhead(share_of_step=0.01, method="measured"), recorder=used
    )
    text = report.render("text")
    assert "recorder  2.0 % of a core, after 1.0 s of CPU to start" in str(text)
    text = replace(report, recorder=replace(used, wall_s=5.0)).render("text")
    assert "recorder  3.0 s of CPU, 1.0 s of it to start" in str(text)


def test_probe_run_ends_as_its_script_whatever_becomes_of_the_report(tmp_path: Path) -> None:
    script = processes.write(
        tmp_path / "train.py",
        """
    import os, shutil, sys
    import probe
    with probe.watch() as run:
        with run.phase("work"):
            pass
        if sys.argv[1] == "vanishes":
            shutil.rmtree(run.path)
        else:
            (run.path / "run.json").write_bytes(b"\\xff\\x00 no JSON")
    sys.exit(7)
    """,
    )
    for what in ("vanishes", "is damaged"):
        out = processes.probe(
            tmp_path,
            "run",
            "--dir",
            str(tmp_path / "runs"),
            "--",
            sys.executable,
            str(script),
            what,
        )
        assert out.returncode == 7, (what, out.stderr)
        assert "Traceback" not in out.stderr


def test_a_training_of_a_moment_is_sealed(tmp_path: Path) -> None:
    """It is over before `probe run` starts the recorder."""
    script = processes.write(
        tmp_path / "train.py",
        """
    import probe
    with probe.watch() as run:
        with run.phase("work"):
            pass
    """,
    )
    runs = tmp_path / "runs"
    out = processes.probe(tmp_path, "run", "--dir", str(runs), "--", sys.executable, str(script))
    assert out.returncode == 0, out.stderr
    (run,) = runs.iterdir()
    assert processes.wait_until(lambda: RunReader(run).status.value == "finished")
