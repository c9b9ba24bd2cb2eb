"""Hosts out of namespaces: each has a network, a name and a monotonic clock of its own.

::

    with hosts("alpha", "beta", ahead_s=(0, 1000)) as (alpha, beta):
        alpha.popen(["torchrun", …]); beta.popen([…])     # they reach each other by address

A host is a process that sleeps in namespaces of its own; commands enter them. The hosts hang on a
bridge in a network of its own. ``joined``, it is in this machine's network, which reaches them; a
browser that runs meanwhile says that its network has changed, and fails. Shared memory is each
host's own, the files below are like a shared file system. Processes are seen by all, and it is one
boot, so what a test checks must not lean on either. Needs root and util-linux.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes import processes

_made = itertools.count()
NEEDS = ("unshare", "nsenter", "ip")


def possible() -> bool:
    """Whether this machine lets us make hosts."""
    if os.geteuid() or any(shutil.which(tool) is None for tool in NEEDS):
        return False
    namespaces = ["unshare", "-m", "-n", "-u", "-T", "--monotonic", "1000"]
    command = [*namespaces, "ip", "link", "add", "tried", "type", "bridge"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Host:
    """One of them; ``pid`` sleeps in its namespaces."""

    name: str
    address: str
    ahead_s: int  # of its monotonic clock
    pid: int

    def command(self, command: Sequence[str]) -> list[str]:
        """As it is run there."""
        # A time namespace is for children: nsenter forks before it runs the command.
        return ["nsenter", "-t", str(self.pid), "-m", "-n", "-u", "-T", "--", *command]

    def kill(self) -> None:
        """As if its plug had been pulled: everything that runs on it ends at once, but it stays."""
        namespace = os.readlink(f"/proc/{self.pid}/ns/net")
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "ns/net") == namespace and int(process.name) != self.pid:
                    os.kill(int(process.name), signal.SIGKILL)

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a command there."""
        return subprocess.Popen(self.command(command), text=True, **options)

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end."""
        return subprocess.run(self.command(command), text=True, check=True, **options)


@contextlib.contextmanager
def hosts(*names: str, ahead_s: Sequence[int], joined: bool = False) -> Iterator[list[Host]]:
    """Hosts with these names whose monotonic clocks are ahead of ours by so many seconds.

    ``joined``: this machine reaches them.
    """
    made: list[Host] = []
    sleepers: list[subprocess.Popen[bytes]] = []
    network: list[str] = []  # what enters the bridge's
    if not joined:
        # The shell is in the new network when it prints.
        words = ["unshare", "-n", "sh", "-c", "echo; exec sleep 100000"]
        sleepers.append(subprocess.Popen(words, stdout=subprocess.PIPE))
        assert sleepers[0].stdout is not None
        with sleepers[0].stdout as printed:
            printed.readline()
        network = ["nsenter", "-t", str(sleepers[0].pid), "-n", "--"]
    # New names each time: a network that was left is taken down a while later.
    number = next(_made)
    tag = f"{os.getpid() % 10000}{number % 100}"
    bridge = f"pw{tag}"
    subnet = f"10.{77 + os.getpid() % 100}.{(os.getpid() // 100 + number) % 250}"
    addresses = [f"{subnet}.{place + 2}" for place in range(len(names))]
    hosts_file = tempfile.NamedTemporaryFile("w", prefix="hosts-", delete=False)  # noqa: SIM115
    with hosts_file:
        hosts_file.write("127.0.0.1 localhost\n")
        hosts_file.writelines(f"{a} {n}\n" for a, n in zip(addresses, names, strict=True))
    os.chmod(hosts_file.name, 0o644)
    try:
        _ip(network, "link", "add", bridge, "type", "bridge")
        _ip(network, "addr", "add", f"{subnet}.1/24", "dev", bridge)
        _ip(network, "link", "set", bridge, "up")
        for place, (name, ahead) in enumerate(zip(names, ahead_s, strict=True)):
            sleeper = subprocess.Popen(
                [
                    "unshare",
                    "-m",
                    "-n",
                    "-u",
                    "-T",
                    "--fork",
                    "--kill-child",
                    "--monotonic",
                    str(ahead),
                    "sh",
                    "-c",
                    f"hostname {name} && mount --bind {hosts_file.name} /etc/hosts && "
                    "mount -t tmpfs tmpfs /dev/shm && exec sleep 100000",
                ]
            )
            sleepers.append(sleeper)
            host = Host(name, addresses[place], ahead, _child(sleeper.pid, name))
            outer, inner = f"pwo{tag}{place}", f"pwi{tag}{place}"
            _ip(network, "link", "add", outer, "type", "veth", "peer", "name", inner)
            _ip(network, "link", "set", outer, "master", bridge, "up")
            _ip(network, "link", "set", inner, "netns", str(host.pid))
            host.run(["ip", "addr", "add", f"{host.address}/24", "dev", inner])
            host.run(["ip", "link", "set", inner, "up"])
            host.run(["ip", "link", "set", "lo", "up"])
            made.append(host)
        yield made
    finally:
        for sleeper in sleepers:
            sleeper.kill()  # and with it, its child: unshare heeds nothing else
            sleeper.wait(timeout=processes.HUNG_S)
        if joined:
            _ip(network, "link", "del", bridge, check=False)
        os.unlink(hosts_file.name)


def _child(pid: int, name: str) -> int:
    """The process below ``unshare`` once it has its name: it lives in the new clock."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            command = Path(f"/proc/{children[0]}/cmdline").read_text()
            if command.startswith("sleep"):
                return int(children[0])
        time.sleep(0.01)
    raise TimeoutError(f"the host {name} did not come up")


def _ip(network: list[str], *arguments: str, check: bool = True) -> None:
    subprocess.run([*network, "ip", *arguments], check=check, capture_output=True)


__all__ = ["Host", "hosts", "possible"]
