"""Start a recorder from a training process, without side effects in it.

The command forks once more and exits, so that the recorder is no child of the training: no
SIGCHLD, no zombie, nothing in the user's ``waitpid``. It runs in a new session (launchers kill
their workers' process group), has no descriptors but its log (``python train.py | cat`` must see
end-of-file), and ignores SIGINT.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from ..child_python import module_paths
from ..store.layout import lease_path, node_dir
from ..store.new_files import make_folder_here, open_to_append, rewrite
from ..store.processes import start_ticks
from ..store.untrusted import read_regular

_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[3])
from probe.recorder.main import main
main(sys.argv[1], int(sys.argv[2]))
"""


def claim(run: Path, epoch: int) -> bool:
    """Take the right to start the node's recorder with this fencing number.

    Exactly one process of the node gets True. Raises OSError if the run directory has vanished
    (it is not made again) or cannot be written.
    """
    make_folder_here(node_dir(run))
    try:
        os.close(os.open(lease_path(run, epoch), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        return False
    return True


def sign(run: Path, epoch: int) -> None:
    """In the recorder: write into its lease which process it is; on a full disk that is missing."""
    with contextlib.suppress(OSError):
        pid = os.getpid()
        rewrite(lease_path(run, epoch), f"{pid} {start_ticks(pid) or 0}\n".encode())


def signed(run: Path, epoch: int) -> tuple[int, int] | None:
    """The recorder's (pid, start ticks); None before it has signed, and if it could not."""
    with contextlib.suppress(OSError, ValueError):
        pid, ticks = read_regular(lease_path(run, epoch), 1 << 10).split()
        return int(pid), int(ticks)
    return None


def current_epoch(run: Path, node: str | None = None) -> int:
    """The highest fencing number claimed on the node so far; 0 if none."""
    try:
        names = os.listdir(node_dir(run, node))
    except OSError:
        return 0
    numbers = [name.removeprefix("lease-") for name in names if name.startswith("lease-")]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def spawn(run: Path, epoch: int) -> subprocess.Popen[bytes]:
    """Start the recorder; the returned child exits within some 20 ms and must be waited for.

    Raises:
        OSError: the interpreter or the log cannot be opened.
    """
    log = open_to_append(node_dir(run) / "recorder.log")
    try:
        return subprocess.Popen(
            _command(run, epoch),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            close_fds=True,
            start_new_session=True,
            cwd="/",
            env=_environment(),
        )
    finally:
        os.close(log)


def spawn_aside(run: Path, epoch: int) -> subprocess.Popen[bytes] | None:
    """Start the recorder without waiting until its process runs (50 to 250 ms when busy).

    Returns:
        None: a thread that runs no Python starts the process and reaps it. Where that thread was
        not compiled (``setup.py``), what :func:`spawn` returns.

    Raises:
        OSError: the log cannot be opened, or there can be no thread.
    """
    try:
        # By name: it has no Python source, and whatever checks our imports would not find it.
        start = import_module(".spawn_thread", __package__).start
    except ImportError:
        return spawn(run, epoch)
    variables = [os.fsencode(f"{key}={value}") for key, value in _environment().items()]
    log = open_to_append(node_dir(run) / "recorder.log")
    try:
        start([os.fsencode(word) for word in _command(run, epoch)], variables, log)
    finally:
        os.close(log)
    return None


def _command(run: Path, epoch: int) -> list[str]:
    paths = json.dumps(module_paths())
    return [sys.executable or "python3", "-I", "-S", "-c", _BOOT, str(run), str(epoch), paths]


def _environment() -> dict[str, str]:
    # With a job's id CodeCarbon runs scontrol at each reading.
    drop = {
        "SLURM_JOB_ID",
        "SLURM_JOBID",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONINSPECT",
        "PROBE_RUN",
        "PROBE_TASK",
        "COVERAGE_PROCESS_START",
    }
    kept = {key: value for key, value in os.environ.items() if key not in drop}
    # One thread each: the recorder must not spread over the user's cores.
    return kept | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Memory goes back to the system: a recorder that runs for weeks must stay as it is.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(16 << 20),
    }
