"""The host sensor on real processes: CPU time of trees whose members come and go."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from probe.model import Kind, Provenance, Sample
from probe.sensors import SensorContext
from probe.sensors._processes import LIST_EVERY, Tree, outermost
from probe.sensors.host import HostSensor
from tests.fakes import processes

# Does as it is told, a Python statement per line, and answers each.
OBEDIENT = """
import os, signal, subprocess, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
def child(seconds):
    if os.fork() == 0:
        burn(seconds); os._exit(0)
    os.wait()
def stay(seconds):
    r, w = os.pipe()
    if os.fork() == 0:
        os.close(w); burn(seconds); os.read(r, 1); os._exit(0)
    return r, w
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Obedient:
    def __init__(self) -> None:
        pipe = subprocess.PIPE
        code = [sys.executable, "-c", OBEDIENT]
        self.process = subprocess.Popen(code, stdin=pipe, stdout=pipe, text=True)
        self.pid = self.process.pid
        self.do("pass")  # it has started

    def do(self, statement: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def process() -> Iterator[Obedient]:
    obedient = Obedient()
    yield obedient
    obedient.kill()


def opened(*pids: int) -> HostSensor:
    sensor = HostSensor(SensorContext(pids=pids))
    sensor.open()
    return sensor


def values(sensor: HostSensor) -> dict[str, float]:
    return {r.source: r.value for r in sensor.read() if isinstance(r, Sample)}


def cpu_seconds(sensor: HostSensor) -> float:
    return values(sensor)["process:cpu_seconds"]


def test_every_source_gives_a_value_in_its_unit(process: Obedient) -> None:
    sensor = HostSensor(SensorContext(pids=(process.pid,)))
    sources = {source.id: source for source in sensor.open()}
    measured = values(sensor)
    assert measured.keys() == sources.keys()
    assert all(s.provenance is Provenance.MEASURED for s in sources.values())
    assert sources["process:cpu_seconds"].kind is Kind.COUNTER
    assert 0 <= measured["host:cpu_utilization"] <= 1
    assert measured["host:memory_used"] > measured["process:rss"] > 1e6
    sensor.close()
    sensor.close()
    assert not list(sensor.read())


def test_memory_that_the_job_takes_is_seen(process: Obedient) -> None:
    sensor = opened(process.pid)
    before = values(sensor)["process:rss"]
    process.do("kept = bytearray(os.urandom(1) * 50_000_000)")
    assert values(sensor)["process:rss"] - before == pytest.approx(50e6, rel=0.1)


def test_a_child_that_no_read_has_seen_counts_once_it_was_waited_for(process: Obedient) -> None:
    sensor = opened(process.pid)
    before = cpu_seconds(sensor)
    process.do("child(0.3)")
    process.do("child(0.2)")
    assert cpu_seconds(sensor) - before == pytest.approx(0.5, abs=0.1)


def test_a_child_that_nobody_waits_for_is_neither_lost_nor_taken_back(process: Obedient) -> None:
    process.do("signal.signal(signal.SIGCHLD, signal.SIG_IGN)")  # the kernel reaps
    sensor = opened(process.pid)
    before = cpu_seconds(sensor)
    process.do("r, w = stay(0.3)")
    # Linux counts in ticks of 10 ms, user and system time apart: 0.28 may be all there is to see.
    assert processes.wait_until(lambda: cpu_seconds(sensor) - before > 0.27)
    process.do("os.close(w); time.sleep(0.1)")
    after = [cpu_seconds(sensor) for _ in range(3)]
    assert min(after) - before == pytest.approx(0.3, abs=0.1)
    process.do("burn(0.2)")
    assert cpu_seconds(sensor) - before == pytest.approx(0.5, abs=0.1)


def test_the_counter_stays_where_it_was_when_the_job_ends(process: Obedient) -> None:
    sensor = opened(process.pid)
    process.do("burn(0.2)")
    before = cpu_seconds(sensor)
    process.kill()
    assert [cpu_seconds(sensor) for _ in range(6)] == [before] * 6
    assert values(sensor)["process:rss"] == 0


def test_a_process_inside_another_of_the_job_counts_once(process: Obedient) -> None:
    assert [p.pid for p in outermost((process.pid, os.getpid()))] == [os.getpid()]
    assert {p.pid for p in outermost((process.pid, 2**22 + 1))} == {process.pid}
    sensor = opened(os.getpid(), process.pid)
    before = cpu_seconds(sensor)
    process.do("burn(0.3)")
    assert cpu_seconds(sensor) - before == pytest.approx(0.3, abs=0.15)


def test_a_tree_is_not_walked_every_time(process: Obedient) -> None:
    tree = Tree(psutil.Process(process.pid))
    assert tree.children(recursive=True) == [] and tree.pid == process.pid
    process.do("r, w = stay(0.0)")
    early = [tree.children(recursive=True) for _ in range(LIST_EVERY - 1)]
    assert not any(early) and len(tree.children(recursive=True)) == 1
