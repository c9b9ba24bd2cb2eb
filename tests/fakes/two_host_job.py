"""A training on two namespaced hosts of two GPUs each, launched by torchrun on both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.namespaced_hosts import Host, hosts, possible
from tests.fakes.nvml import NvmlRig
from tests.scripts import SCRIPTS

NAMES, AHEAD_S, RANKS, PERIOD_S = ("alpha", "beta"), (0, 1000), 2, 0.1
SCRIPT = str(SCRIPTS / "train_ranks.py")
needs_hosts = pytest.mark.skipif(
    not possible(), reason="hosts need root, util-linux and iproute2: apt-get install iproute2"
)


@dataclass
class Node:
    """A host with two GPUs."""

    host: Host
    rig: NvmlRig
    process: subprocess.Popen[str]


@contextmanager
def job(
    tmp_path: Path,
    *arguments: str,
    shared: bool = True,
    static: bool = False,
    extra: dict[str, str] | None = None,
    joined: bool = False,
) -> Iterator[list[Node]]:
    """A job on two hosts, launched by torchrun on each; ``joined``: this machine reaches them."""
    with hosts(*NAMES, ahead_s=AHEAD_S, joined=joined) as made:
        nodes = []
        port = str(processes.free_port())
        for place, host in enumerate(made):
            (tmp_path / host.name).mkdir()
            rig = NvmlRig(tmp_path / host.name, gpus=2, power_w=100.0, period_s=PERIOD_S)
            for gpu in range(2):  # as on another machine: cards of its own
                rig.gpu(gpu).uuid = f"GPU-{place}{gpu:07x}-1111-2222-3333-444455556666".encode()
            runs = tmp_path / "runs" if shared else tmp_path / host.name / "runs"
            meeting = (
                ["--master-addr", made[0].address, "--master-port", port]
                if static
                else [
                    "--rdzv-backend",
                    "c10d",
                    "--rdzv-endpoint",
                    f"{made[0].address}:{port}",
                    "--rdzv-id",
                    f"job-{tmp_path.name}",
                ]
            )
            command = [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nnodes",
                "2",
                "--node-rank",
                str(place),
                "--nproc-per-node",
                str(RANKS),
                *meeting,
                SCRIPT,
                *arguments,
            ]
            with (tmp_path / host.name / "out").open("w") as out:
                process = host.popen(
                    command,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=tmp_path,
                    env=processes.environment(runs, rig.env() | (extra or {})),
                )
            nodes.append(Node(host, rig, process))
        try:
            yield nodes
        finally:
            for node in nodes:
                node.process.kill()
                node.process.wait()


def ended(tmp_path: Path, nodes: list[Node]) -> None:
    for node in nodes:
        assert node.process.wait(timeout=processes.HUNG_S) == 0, (
            tmp_path / node.host.name / "out"
        ).read_text()

    def written() -> list[str]:
        """The status in each host's file: a host that is late looks lost to others, and is not."""
        runs = tmp_path.glob("**/runs/*/run.json")
        return [
            str(host.meta.get("status", "running"))
            for run in runs
            for host in RunReader(run.parent).hosts()
        ]

    assert processes.wait_until(lambda: "running" not in written()), written()
