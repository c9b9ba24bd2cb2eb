"""A command ends with its own code, whatever its threads are doing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.fakes import processes

# Threads that are always inside Arrow's C++: the interpreter's end used to abort one in four.
COMMAND = """
import atexit, io, sys, threading
import pyarrow, pyarrow.parquet
from probe.cli.main import main

table = pyarrow.table({"a": list(range(2000))})

def read():
    while True:
        file = io.BytesIO()
        pyarrow.parquet.write_table(table, file)
        pyarrow.parquet.read_table(io.BytesIO(file.getvalue()))

for _ in range(3):
    threading.Thread(target=read, daemon=True).start()
atexit.register(print, "tidied up")
sys.argv = ["probe", "ls", "--dir", sys.argv[1]]
main()
"""


def ended(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """The code, run to its end; its argument is a directory that does not exist."""
    return subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "nothing")],
        env=processes.environment(tmp_path / "runs"),
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )


def test_daemon_threads_do_not_abort_a_command(tmp_path: Path) -> None:
    for _ in range(4):
        done = ended(COMMAND, tmp_path)
        assert done.returncode == 1, done.stderr
        assert done.stderr.startswith("probe: ") and done.stderr.count("\n") == 1
        assert done.stdout == "tidied up\n"


# What C++ libraries' own threads meet at the interpreter's end, they meet before this.
WITNESS = """
import os, sys
from probe.cli.main import main

class Witness:
    def __del__(self):
        os.write(1, b"the interpreter was taken down")

witness = Witness()
sys.argv = ["probe", "ls", "--dir", sys.argv[1]]
main()
"""


def test_a_command_ends_before_the_interpreter_is_taken_down(tmp_path: Path) -> None:
    done = ended(WITNESS, tmp_path)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
