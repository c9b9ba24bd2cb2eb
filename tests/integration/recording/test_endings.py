"""However a training ends, the run says so; its children and its pipes are left in peace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from probe.model import RunStatus
from probe.recorder.spawn import signed
from probe.store.processes import is_alive
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.processes import AWAIT_RECORDER, PLAIN, only_run, sealed, wait_until


@pytest.mark.parametrize(
    ("ending", "expected", "code"),
    [
        ("sys.exit(3)", RunStatus.FAILED, 3),
        ("sys.exit(0)", RunStatus.FINISHED, 0),
        ("sys.exit('no data')", RunStatus.FAILED, 1),
        ("raise ValueError('mine')", RunStatus.FAILED, 1),
        ("os._exit(5)", RunStatus.KILLED, 5),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)", RunStatus.KILLED, -15),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", RunStatus.FAILED, -2),
    ],
)
def test_how_the_run_ended(ending: str, expected: RunStatus, code: int, tmp_path: Path) -> None:
    script = f"""
    import os, signal, sys, time, probe
    with probe.watch(name="ending") as run:
        with run.phase("work"):
            await_recorder(run)
        {ending}
    """
    result = processes.run(AWAIT_RECORDER + textwrap.dedent(script), tmp_path)
    assert result.returncode == code
    assert result.stdout == ""
    assert "phasewatt" not in result.stderr
    run = only_run(tmp_path)
    assert processes.status_at_end(run) is expected


def test_output_into_a_pipe_ends_with_the_script(tmp_path: Path) -> None:
    """Its recorder, which is stopped here and lives on, has no end of the pipe."""
    stop = "\n    import os, signal\n    recorder = json.loads((run.path / 'run.json').read_text())"
    stop += "['recorder']['pid']\n    os.kill(recorder, signal.SIGSTOP)\n"
    script = processes.write(tmp_path / "s.py", PLAIN + stop)
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} {script} 0.3 | cat"],
        capture_output=True,
        text=True,
        env=processes.environment(tmp_path / "runs"),
        timeout=processes.HUNG_S,
        check=True,
    )
    run = only_run(tmp_path)
    assert str(run) in done.stdout
    recorder, _ = signed(run, 1) or (0, 0)
    assert Path(f"/proc/{recorder}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    os.kill(recorder, signal.SIGCONT)


def test_the_report_of_a_command_waits_for_a_recorder_that_closes_slowly(tmp_path: Path) -> None:
    """Here it is stopped for four seconds, as one is that has a card's meters to fit."""
    slow = """
    import os, pathlib, signal, subprocess
    import torch
    torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    file = pathlib.Path(os.environ["PROBE_RUN"]) / "run.json"
    while not (recorder := json.loads(file.read_text()).get("recorder")):
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(recorder["pid"], signal.SIGSTOP)
    subprocess.Popen(["sh", "-c", f"sleep 4; kill -CONT {recorder['pid']}"])
    """
    script = processes.write(tmp_path / "slow.py", "import json, time\n" + textwrap.dedent(slow))
    done = processes.probe(tmp_path, "run", "--", sys.executable, str(script))
    assert done.returncode == 0
    assert "slow · finished after" in done.stderr, done.stderr
    assert "still" not in done.stderr


# The recorder is stopped until long after the training has given up waiting for it.
CLOSES_SLOWLY = f"""{AWAIT_RECORDER}
import os, signal, subprocess
import probe
from probe.store.files import read_json
with probe.watch(name="slow") as run:
    await_recorder(run)
    with run.phase("work"):
        time.sleep(0.3)
    recorder = read_json(run.path / "run.json")["recorder"]["pid"]
    os.kill(recorder, signal.SIGSTOP)
    subprocess.Popen(["sh", "-c", f"sleep 8; kill -CONT {{recorder}}"])
"""


def test_a_report_right_after_a_training_waits_for_its_recorder(tmp_path: Path) -> None:
    script = processes.write(tmp_path / "slow.py", CLOSES_SLOWLY)
    environment = processes.environment(tmp_path / "runs")
    subprocess.run([sys.executable, str(script)], env=environment, check=True)
    assert RunReader(only_run(tmp_path)).status is RunStatus.RUNNING
    out = processes.probe(tmp_path, "report", "slow")
    assert "slow · finished after" in out.stdout and "still going on" not in out.stdout
    assert "slow-" in out.stderr and "has just ended: waiting" in out.stderr


def test_a_script_that_opens_its_own_report_waits_for_its_recorder(tmp_path: Path) -> None:
    # To import what reads runs takes seconds on a busy machine.
    training = CLOSES_SLOWLY.replace("sleep 8", "sleep 15")
    done = processes.run(f'{training}\nprint(probe.open_report("slow").run.status)', tmp_path)
    assert done.stdout.strip() == RunStatus.FINISHED, done.stderr
    assert "has just ended: waiting" in done.stderr


def test_nothing_appears_in_the_users_waitpid_and_no_thread_is_left(tmp_path: Path) -> None:
    script = """
    import os, threading, time, probe
    def children():
        try:
            return os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
    before = threading.active_count(), len(os.listdir("/proc/self/task"))
    with probe.watch() as run:
        assert (threading.active_count(), len(os.listdir("/proc/self/task"))) == before
        for _ in range(20):
            assert children() is None
            time.sleep(0.02)
    assert children() is None
    print("clean")
    """
    result = processes.run(script, tmp_path)
    assert result.stdout == "clean\n", result.stderr


def test_a_trainer_that_is_process_1_reaps_its_recorder(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: unshare --pid")
    script = """
    import os, time, probe
    assert os.getpid() == 1
    with probe.watch(name="container") as run:
        await_recorder(run)
        with run.phase("work"):
            time.sleep(1.0)
        print(run.path, flush=True)
    try:
        print(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        print("no children")
    """
    code = AWAIT_RECORDER + textwrap.dedent(script)
    result = processes.run(
        code, tmp_path, prefix=["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    )
    if "unshare" in result.stderr:
        pytest.skip(result.stderr)
    assert result.stdout.splitlines()[1:] == ["no children"], result.stderr
    run = only_run(tmp_path)
    assert sealed(run)
    assert RunReader(run).status is RunStatus.FINISHED


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_the_trainer_record_nothing(method: str, tmp_path: Path) -> None:
    script = f"""
    import multiprocessing, time
    import probe
    def child():
        with probe.phase("in the child"):
            time.sleep(0.01)
        with probe.watch.__class__ and probe.phase("again"):
            pass
    if __name__ == "__main__":
        multiprocessing.set_start_method("{method}")
        with probe.watch(name="parent") as run:
            with run.phase("work"):
                p = multiprocessing.Process(target=child); p.start(); p.join()
            assert p.exitcode == 0
    """
    result = processes.run(script, tmp_path)
    assert result.returncode == 0, result.stderr
    run = only_run(tmp_path)
    assert processes.status_at_end(run) is RunStatus.FINISHED
    reader = RunReader(run)
    assert len(reader.rings(0)) == 1
    assert not {"in the child", "again"} & set(reader.names(0, reader.rings(0)[0][0]).values())


def test_a_forked_child_that_leaves_the_block_does_not_end_the_run(tmp_path: Path) -> None:
    script = """
    import os, sys, time, probe
    with probe.watch(name="parent") as run:
        if os.fork() == 0:
            sys.exit(7)          # unwinds through the with block of its copy
        os.wait()
        with run.phase("after"):
            time.sleep(0.3)
    print("parent done")
    """
    result = processes.run(script, tmp_path)
    assert result.stdout == "parent done\n", result.stderr
    run = only_run(tmp_path)
    assert processes.status_at_end(run) is RunStatus.FINISHED
    reader = RunReader(run)
    assert "after" in reader.names(0, reader.rings(0)[0][0]).values()


def test_rings_are_removed_when_the_run_is_sealed(tmp_path: Path) -> None:
    result = processes.run(PLAIN, tmp_path, "0.3")
    run = Path(result.stdout.strip())
    assert processes.status_at_end(run) is RunStatus.FINISHED
    assert wait_until(lambda: not list(Path("/dev/shm").glob(f"phasewatt-*{run.name}*")))
    meta = json.loads((run / "run.json").read_text())
    recorder = meta["recorder"]
    assert wait_until(lambda: not is_alive(recorder["pid"], recorder["start_ticks"]))
