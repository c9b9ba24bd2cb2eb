"""Two ranks train a known number of steps: ``torchrun train_parallel_engines.py NAME STEPS``."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import probe

WIDTH, BATCH = 32, 16


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(4)))


def train(
    net: nn.Module, optimizer: Any, name: str, steps: int, batch: Callable[..., Any] = torch.randn
) -> None:
    with probe.watch(net, optimizer, name=name) as run:
        print(f"RUN {run.path}", flush=True)
        for _ in range(steps):
            net(batch(BATCH, WIDTH)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def fsdp(steps: int) -> None:
    from torch.distributed.fsdp import fully_shard

    sharded = model()
    for block in sharded:
        fully_shard(block)
    fully_shard(sharded)
    optimizer = torch.optim.AdamW(sharded.parameters(), 1e-3)
    train(sharded, optimizer, "fsdp", steps)


def pipeline(steps: int) -> None:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank = dist.get_rank()
    own_blocks = model()[2 * rank : 2 * rank + 2]
    stage = PipelineStage(own_blocks, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(own_blocks.parameters(), 1e-3)
    with probe.watch(own_blocks, optimizer, name="pipeline") as run:
        print(f"RUN {run.path}", flush=True)
        for _ in range(steps):
            x = torch.randn(BATCH, WIDTH)
            if rank == 0:
                schedule.step(x)
            else:
                schedule.step(target=x)
            optimizer.step()
            optimizer.zero_grad()


def tensor(steps: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    split = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    parallelize_module(
        split, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()}
    )
    optimizer = torch.optim.SGD(split.parameters(), 1e-3)
    train(split, optimizer, "tensor", steps, batch=torch.ones)  # the same on every rank


def zero(stage: int, steps: int) -> None:
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    net = model()
    engine, *_ = deepspeed.initialize(
        model=net,
        optimizer=torch.optim.AdamW(net.parameters(), 1e-3),
        config={
            "train_micro_batch_size_per_gpu": BATCH,
            "gradient_accumulation_steps": 2,
            "gradient_clipping": 1.0,
            "zero_optimization": {"stage": stage, "overlap_comm": True},
        },
    )
    with probe.watch(engine, name=f"zero{stage}") as run:
        print(f"RUN {run.path}", flush=True)
        for _ in range(2 * steps):
            loss: Any = engine(torch.randn(BATCH, WIDTH)).square().mean()
            engine.backward(loss)
            engine.step()


def asynchronous(steps: int) -> None:
    """Gradients are reduced beside other work, by hand."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    with probe.watch(net, optimizer, name="asynchronous") as run:
        print(f"RUN {run.path}", flush=True)
        for _ in range(steps):
            net(torch.randn(BATCH, WIDTH)).square().mean().backward()
            begun = [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]
            torch.randn(64, 64) @ torch.randn(64, 64)
            for work in begun:
                work.wait()
            optimizer.step()
            optimizer.zero_grad()


def count_begun() -> dict[str, int]:
    """How many collectives were left to run beside Python.

    Looks at what torch's own functions return; phasewatt's patches come later, on top.
    """
    seen = {"beside": 0}

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            work = original(*args, **kwargs)
            seen["beside"] += isinstance(work, dist.Work)
            return work

        return call

    names = (
        "all_reduce",
        "reduce",
        "all_gather",
        "all_gather_into_tensor",
        "reduce_scatter_tensor",
    )
    for name in names:
        setattr(dist, name, counted(getattr(dist, name)))
    return seen


def main(name: str, steps: int) -> None:
    torch.set_num_threads(1)
    seen = count_begun()
    dist.init_process_group("gloo")
    {
        "fsdp": fsdp,
        "pipeline": pipeline,
        "tensor": tensor,
        "asynchronous": asynchronous,
        **{f"zero{i}": lambda n, i=i: zero(i, n) for i in (1, 2, 3)},
    }[name](steps)
    print(f"SEEN {json.dumps(seen)}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    os._exit(0)  # DeepSpeed leaves threads behind
