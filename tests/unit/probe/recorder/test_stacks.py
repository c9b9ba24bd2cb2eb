"""A process writes where it hangs, and what it wrote is read."""

from __future__ import annotations

import os
import time
from pathlib import Path

from probe.recorder.hangs.stacks import other_places, place, read_stacks
from tests.fakes import processes

HANGS = """
import os, sys, threading, time
from pathlib import Path
from probe.session.stack_dumps import StackDumps

def inner():
    time.sleep(1.2)

def asleep(event):
    event.wait()

threading.Thread(target=asleep, args=(threading.Event(),), daemon=True).start()
stacks = StackDumps(Path(sys.argv[1]), 0.5)
for _ in range(8):
    time.sleep(0.1)
    stacks.put_off()
assert os.path.getsize(sys.argv[1]) == 0, "it was put off"
inner()
print(threading.get_ident(), flush=True)
stacks.close()
time.sleep(0.7)
"""


def test_a_process_that_hangs_writes_its_threads_until_it_is_put_off(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    done = processes.run(HANGS, tmp_path, str(path))
    assert done.returncode == 0, done.stderr
    ident = int(done.stdout)
    assert path.read_text().count("Timeout (0:00:00") == 2  # after 0.5 s and 1 s, not when closed
    threads = read_stacks(path, time.time() - 60)
    lines = HANGS.splitlines()
    assert place(threads[ident]).endswith(f":{lines.index('    time.sleep(1.2)') + 1} in inner")
    assert [frame.function for frame in threads[ident]] == ["inner", "<module>"]
    (waits,) = other_places(threads, ident)
    assert waits.endswith(f":{lines.index('    event.wait()') + 1} in wait")
    assert read_stacks(path, time.time() + 60) == {}


FORKS = """
import os, sys, time
from pathlib import Path
from probe.session.stack_dumps import StackDumps
stacks = StackDumps(Path(sys.argv[1]), 0.3)
child = os.fork()
if child == 0:
    sys.exit(7)  # the interpreter's end, with all that is registered for it
until = time.monotonic() + 300
while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until:
    time.sleep(0.01)
if ended[0] == 0:
    os.kill(child, 9)
print(os.waitstatus_to_exitcode(ended[1]))
time.sleep(0.5)
stacks.close()
"""


def test_a_forked_child_ends_and_its_parent_is_still_watched(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    done = processes.run(FORKS, tmp_path, str(path))
    assert done.stdout == "7\n", done.stderr
    assert "Timeout" in path.read_text()


def test_an_empty_file_goes_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    code = "import sys, pathlib\nfrom probe.session.stack_dumps import StackDumps\n"
    code += "s = StackDumps(pathlib.Path(sys.argv[1]), 60)\ns.close()\ns.close()\n"
    assert processes.run(code, tmp_path, str(path)).returncode == 0
    assert not path.exists()


def test_a_line_names_a_few_other_threads(tmp_path: Path) -> None:
    threads = "\n".join(
        f'Thread 0x{n:x} (most recent call first):\n  File "/t/w.py", line {max(n, 2)} in work\n'
        for n in range(1, 8)
    )
    path = tmp_path / "stacks.txt"
    begins = "Timeout (0:05:00)!\n"
    before = 'Thread 0x77 (most recent call first):\n  File "/t/old.py", line 9 in before\n'
    path.write_text(
        begins + before + begins + threads
        + "Thread 0x99 (most recent call first):\n  <no Python frame>\n"
    )  # fmt: skip
    os.utime(path, (1000.0, 1000.0))
    by_thread = read_stacks(path, 1000.0)
    assert 0x77 not in by_thread
    assert place(by_thread[3]) == "w.py:3 in work" and place(by_thread[0x99]) == ""
    assert other_places(by_thread, 7) == [
        "w.py:2 in work", "w.py:3 in work", "w.py:4 in work", "2 more"
    ]  # fmt: skip
