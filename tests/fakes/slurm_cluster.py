"""A cluster of two nodes on this machine: slurmctld and slurmd, without accounts or cgroups.

Needs root and Debian's package ``slurm-wlm``; each node has four cards that are files.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fakes import processes

DAEMONS = ("slurmctld", "slurmd", "srun", "sbatch")
NODES = ("n1", "n2")
_CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=5
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} Gres=gpu:4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus} Gres=gpu:4
PartitionName=p Nodes=n1,n2 Default=YES State=UP OverSubscribe=FORCE:8
"""


def missing() -> str:
    """Why there can be no cluster; empty if there can."""
    if os.getuid() != 0:
        return "only root may start jobs"
    absent = [name for name in DAEMONS if shutil.which(name, path=_PATH) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start it; the variables with which Slurm's commands find it."""
    host = socket.gethostname().partition(".")[0]
    ports = [processes.free_port() for _ in range(3)]
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    cards = [folder / f"card{number}" for number in range(4)]
    for card in cards:
        card.touch()
    cpus = os.cpu_count() or 1
    config = folder / "slurm.conf"
    config.write_text(_CONFIG.format(host=host, ports=ports, folder=folder, cpus=cpus))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
    (folder / "gres.conf").write_text(f"NodeName=n[1-2] Name=gpu File={folder}/card[0-3]\n")
    variables = {"SLURM_CONF": str(config), "PATH": _PATH}
    daemons = [["slurmctld", "-D"], *(["slurmd", "-D", "-N", node] for node in NODES)]
    started = [
        subprocess.Popen(
            daemon,
            env=os.environ | variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for daemon in daemons
    ]
    try:
        assert processes.wait_until(lambda: _idle(variables) == len(NODES)), _logs(folder)
        yield variables
    finally:
        subprocess.run(["scancel", "--user", "root"], env=os.environ | variables, check=False)
        for daemon in reversed(started):
            daemon.terminate()
        for daemon in started:
            daemon.wait(timeout=processes.HUNG_S)


def _idle(variables: dict[str, str]) -> int:
    """How many nodes can take jobs."""
    said = subprocess.run(
        ["sinfo", "--noheader", "--Node", "--format=%T"],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.split().count("idle")


def _logs(folder: Path) -> str:
    return "\n".join(file.read_text()[-1500:] for file in sorted(folder.glob("*.log")))
