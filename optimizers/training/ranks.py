"""The process group of a job, as its launcher laid it out."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from typing import TypeVar

import torch
import torch.distributed as dist

_Value = TypeVar("_Value")


def join_ranks() -> tuple[int, int]:
    """Join the process group of the launcher, if there is one; returns (rank, ranks)."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return 0, 1
    if not dist.is_initialized():
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl" if cuda else "gloo")
    return dist.get_rank(), dist.get_world_size()


def agreed(value: _Value) -> _Value:
    """Rank 0's value, on all ranks."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


@contextlib.contextmanager
def leaving() -> Iterator[None]:
    """Around a script's main: leaves the process group at the end, also after an error."""
    try:
        yield
    finally:
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


def peak_memory(device: str) -> int:
    """The most that this process held, in bytes: torch's allocator on a GPU, else resident."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget_peak(device: str) -> None:
    """Begin :func:`peak_memory` anew, at what is held now; Linux only on a CPU."""
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # proc_pid_clear_refs(5): the peak of resident memory


def resident_memory() -> int:
    """What this process holds now, in bytes (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
