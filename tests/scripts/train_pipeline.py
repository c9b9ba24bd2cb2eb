"""A pipeline whose stages compute for given times: ``torchrun train_pipeline.py JSON``.

Every stage sleeps for ``forward_s`` and ``backward_s`` per micro-batch; what a rank receives comes
``transfer_s`` after both neighbours were ready. Prints the mean time of the steps after the first.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import probe

WIDTH = 8
SCHEDULES: dict[str, Any] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Sleep(torch.autograd.Function):
    """The identity, in a given time both ways."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward_s: float, backward_s: float) -> torch.Tensor:
        ctx.backward_s = backward_s
        time.sleep(forward_s)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        time.sleep(ctx.backward_s)
        return gradient, None, None


class Stage(nn.Module):
    """One layer that takes its time."""

    def __init__(self, forward_s: float, backward_s: float):
        super().__init__()
        self.layer, self.times = nn.Linear(WIDTH, WIDTH), (forward_s, backward_s)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A batch of (n, WIDTH) to one of the same shape."""
        return Sleep.apply(self.layer(x), *self.times)  # type: ignore[no-any-return, no-untyped-call]


def slow_arrivals(transfer_s: float) -> None:
    """Let what is received come later than it does."""
    receive: Callable[..., Any] = dist.ProcessGroup.recv
    wait: Callable[..., Any] = dist.Work.wait
    received: dict[int, Any] = {}  # keeps the objects, so that no other gets their ids

    def recv(*args: Any, **kwargs: Any) -> Any:
        work = receive(*args, **kwargs)
        received[id(work)] = work
        return work

    def wait_longer(work: Any, *args: Any, **kwargs: Any) -> Any:
        result = wait(work, *args, **kwargs)
        if received.pop(id(work), None) is not None:
            time.sleep(transfer_s)
        return result

    dist.ProcessGroup.recv, dist.Work.wait = recv, wait_longer  # type: ignore[method-assign]


def main(case: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if case["transfer_s"]:
        slow_arrivals(case["transfer_s"])
    rank, ranks, micros = dist.get_rank(), dist.get_world_size(), case["micros"]
    model = Stage(case["forward_s"], case["backward_s"])
    stage = PipelineStage(model, rank, ranks, torch.device("cpu"))
    schedule = SCHEDULES[case["schedule"]](stage, micros, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.ones(2 * micros, WIDTH)
    ends_s = []
    with probe.watch(model, optimizer, name=case["schedule"]):
        for _ in range(case["steps"]):
            if rank == 0:
                schedule.step(x)
            elif rank == ranks - 1:
                schedule.step(target=x)
            else:
                schedule.step()
            optimizer.step()
            optimizer.zero_grad()
            ends_s.append(time.monotonic())
    if rank == 0:
        print(f"STEP {(ends_s[-1] - ends_s[0]) / (len(ends_s) - 1)}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    os._exit(0)
