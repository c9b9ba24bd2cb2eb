"""Ranks as forks of one process that has imported torch: what torchrun does, without its imports.

python -m tests.scripts.forked_ranks RANKS script.py arguments…

For tests of what ranks compute. Who launches ranks, and how, is tested with torchrun itself. Ends
with 0 if all ranks did, else with 1, and no rank outlives another one that failed.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path

import numpy  # noqa: F401  what every rank needs is imported here, once for all of them
import torch._dynamo  # noqa: F401  an optimizer's first step imports it
import torch.distributed as dist


def main(ranks: int, script: str, arguments: list[str]) -> int:
    """Fork the ranks, give them a store, wait for them."""
    ports = [os.pipe() for _ in range(ranks)]
    children = {}
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            run(rank, ranks, ports[rank][0], script, arguments)
        children[pid] = rank
    # Only now: its threads would not be in the forks.
    store = dist.TCPStore(  # type: ignore[attr-defined]  # torch does not declare it
        "127.0.0.1", 0, ranks, is_master=True, wait_for_workers=False
    )
    for _, write in ports:
        os.write(write, str(store.port).encode())
        os.close(write)
    failed = False
    while children:
        pid, status = os.wait()
        del children[pid]
        if status and not failed:
            failed = True
            for other in children:
                os.kill(other, signal.SIGTERM)
    return int(failed)


def run(rank: int, ranks: int, port: int, script: str, arguments: list[str]) -> None:
    """Be a rank."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": os.read(port, 16).decode(),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is the parent's
    }
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.stdout.flush()
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
