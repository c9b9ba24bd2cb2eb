"""Small training stand-ins that the integration tests run in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from probe.model import RunStatus
from probe.store.reader import RunReader
from tests.fakes import warm_commands

ROOT = Path(__file__).resolve().parents[2]

# What has not happened by then hangs: no promise, on a busy machine everything takes its time.
HUNG_S = 300.0
STARTS_S = 20.0  # a recorder has said who it is, on a busy machine, too

# Marks two edges per turn and counts them, after the fact, in a file that outlives it.
MARKER = """
import mmap, os, struct, sys, time
import probe
path = sys.argv[1]
with open(path, "wb") as f:
    f.write(b"\\0" * 4096)
fd = os.open(path, os.O_RDWR)
count = mmap.mmap(fd, 4096)
with probe.watch(name="marker") as run:
    print(run.path, flush=True)
    n = 0
    while True:
        with run.phase("work"):
            if n % 16 == 0:  # its ring holds seconds, however late the recorder comes
                time.sleep(0.001)
        n += 1
        struct.pack_into("<Q", count, 0, n)
"""

# In a script: until the recorder is up, however busy the machine is. A training waits two seconds
# for its run's seal; a recorder that has only just started may need more.
AWAIT_RECORDER = '''
import json, time
def await_recorder(run):
    end = time.monotonic() + 240.0
    while "recorder" not in json.loads((run.path / "run.json").read_text()):
        assert time.monotonic() < end, "no recorder after 240 s"
        time.sleep(0.02)

def await_source(run, source):
    """Until this meter is open: CodeCarbon's import takes seconds, more on a busy machine."""
    end = time.monotonic() + 240.0
    while not any(source in file.read_text() for file in run.path.glob("node-*/sources.json")):
        assert time.monotonic() < end, f"no {source} after 240 s"
        time.sleep(0.05)
'''

# A minimal training without torch: phases by name for a given time, from when it is recorded.
PLAIN = (
    AWAIT_RECORDER
    + """
import sys
import probe
seconds = float(sys.argv[1])
with probe.watch(name="plain") as run:
    print(run.path, flush=True)
    await_recorder(run)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with run.phase("data"):
            time.sleep(0.002)
        with run.phase("compute"):
            time.sleep(0.01)
"""
)


# The same, until the file that the first argument names exists.
UNTIL_FILE = (
    PLAIN.replace("import sys\n", "import os, sys\n")
    .replace("seconds = float(sys.argv[1])\n", "")
    .replace("    end = time.monotonic() + seconds\n", "")
    .replace(
        "time.monotonic() < end:\n        with", "not os.path.exists(sys.argv[1]):\n        with"
    )
)


def environment(runs: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a script: our checkout importable, its runs in ``runs``."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROBE_", "RANK", "WORLD"))}
    return kept | {
        "PYTHONPATH": str(ROOT),
        "PROBE_DIR": str(runs),
        "OMP_NUM_THREADS": "1",
        "PYTHONFAULTHANDLER": "1",  # a process that is aborted says where it was
        **(extra or {}),
    }


def write(path: Path, code: str) -> Path:
    """Save a script."""
    path.write_text(textwrap.dedent(code))
    return path


def start(
    code: str,
    tmp_path: Path,
    *arguments: str,
    extra: Mapping[str, str] | None = None,
    name: str = "script.py",
    **popen: object,
) -> subprocess.Popen[str]:
    """Start a script with its runs in tmp_path/runs; its pipes are closed after the test."""
    script = write(tmp_path / name, code)
    return closed_after_test(
        subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(tmp_path / "runs", extra),
            cwd=tmp_path,
            **popen,  # type: ignore[call-overload]
        )
    )


_warm = warm_commands.WarmCommands()
_started: list[subprocess.Popen[str]] = []


def closed_after_test(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """A process of which the test may leave pipes open; a failed one also leaves it running."""
    _started.append(process)
    return process


def close_started() -> None:
    """End what runs, and close the pipes of all."""
    while _started:
        process = _started.pop()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def run(
    code: str,
    tmp_path: Path,
    *arguments: str,
    extra: Mapping[str, str] | None = None,
    timeout: float = HUNG_S,
    prefix: list[str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, and wait for what its recorder still writes."""
    script = write(tmp_path / "script.py", code)
    command = [*(prefix or []), sys.executable, str(script), *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path / "runs", extra),
        cwd=tmp_path,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(_where_it_hangs(process, tmp_path / "runs")) from None
    done = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
    # A training waits two seconds for its recorder, which needs longer on a busy machine.
    for run_json in (tmp_path / "runs").glob("*/run.json"):
        folder = run_json.parent
        if wait_until(lambda folder=folder: recorder_pid(folder) or sealed(folder), STARTS_S):
            wait_until(lambda folder=folder: not has_recorder(folder) or sealed(folder))
    return done


def _where_it_hangs(process: subprocess.Popen[str], runs: Path) -> str:
    """The stack and the errors of a script, which this ends, and what its recorder says."""
    process.send_signal(signal.SIGABRT)  # Python's fault handler prints where it is
    try:
        _, stderr = process.communicate(timeout=10.0)
    except subprocess.TimeoutExpired:  # a child of it holds the pipe
        process.kill()
        stderr = ""
    texts = [f"{process.args} hangs", stderr]
    for file in sorted(runs.rglob("*")):
        if file.name == "run.json" or file.suffix == ".log" or file.name == "sources.json":
            texts.append(f"{file}:\n{file.read_text()}")
    return "\n".join(texts)


def probe(
    tmp_path: Path,
    *arguments: str,
    extra: Mapping[str, str] | None = None,
    timeout: float = HUNG_S,
    **options: object,
) -> subprocess.CompletedProcess[str]:
    """Run the command ``probe``."""
    env = environment(tmp_path / "runs", extra)
    if not options and warm_commands.can_run(arguments, extra or {}):
        return _warm.run(arguments, env, tmp_path, timeout)
    return subprocess.run(
        [sys.executable, "-m", "probe", *arguments],
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
        timeout=timeout,
        check=False,
        **options,  # type: ignore[call-overload]
    )


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def only_run(tmp_path: Path) -> Path:
    """The one run directory below tmp_path/runs."""
    runs = [p.parent for p in (tmp_path / "runs").glob("*/run.json")]
    assert len(runs) == 1, runs
    return runs[0]


def sealed(run: Path) -> bool:
    """Whether the run has ended and says how."""
    return bool(json.loads((run / "run.json").read_text())["status"] != "running")


def status_at_end(run: Path) -> RunStatus:
    """How a run ended, once it says so: its training does not wait for that on a busy machine."""
    assert wait_until(lambda: sealed(run)), f"never sealed: {run}"
    return RunReader(run).status


def recorder_pid(run: Path) -> int | None:
    """The recorder's process id, or None before its first status."""
    try:
        value = json.loads((run / "run.json").read_text())
    except (OSError, ValueError):
        return None
    return (value.get("recorder") or {}).get("pid")


def has_recorder(run: Path) -> bool:
    """Whether its recorder lives."""
    pid = recorder_pid(run)
    return pid is not None and Path(f"/proc/{pid}").exists()


def await_recorder(run: Path) -> int:
    """Its process id, once it is up, however busy the machine is."""
    assert wait_until(lambda: recorder_pid(run) is not None)
    pid = recorder_pid(run)
    assert pid is not None
    return pid


def wait_until(condition: Callable[[], object], seconds: float = HUNG_S) -> bool:
    """Poll until true; False after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False
