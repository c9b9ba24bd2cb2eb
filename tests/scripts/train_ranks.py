"""What ranks do for the tests of jobs: a small real training over gloo whose GPUs draw known power.

    torchrun --nproc-per-node 4 train_ranks.py --seconds 6 [--engine ddp|zero1|zero2|zero3|none] …

``none``: ranks that never meet. (After a restart gloo does not always find its peers again.)

Rank r draws on the rig's GPU r, if there is one; the watched block says its run first. With
``--devices`` rank r asks for GPU r modulo that number, as many jobs that share cards do.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import probe
from tests.fakes.nvml import NvmlRig

WATTS = {"forward": 400.0, "backward": 500.0, "rest": 150.0}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--until", metavar="FILE", help="ends early, once there is this file")
    parser.add_argument("--engine", default="ddp")
    parser.add_argument("--devices", type=int)
    parser.add_argument("--late", action="store_true", help="join the group inside the watch")
    parser.add_argument(
        "--die",
        type=float,
        metavar="S",
        help="rank 1 is killed after so long, but not in the last attempt",
    )
    parser.add_argument("--slow", type=int, metavar="R", help="this rank takes 15 ms more")
    parser.add_argument("--save", type=float, metavar="S", help="a checkpoint phase every so often")
    parser.add_argument("--local_rank", type=int, help="deepspeed's")
    options = parser.parse_args()
    torch.set_num_threads(1)
    local = int(os.environ["LOCAL_RANK"])
    rig = NvmlRig.attach(os.environ["NVML_RIG"]) if "NVML_RIG" in os.environ else None
    drawn = rig is not None and local < rig.control.gpus

    def draw(name: str, milliseconds: float) -> None:
        if drawn:
            rig.set_power(local, WATTS[name] * (1 + 0.05 * local))
        time.sleep(milliseconds / 1e3)

    meets = options.engine != "none"
    if meets and not options.late:
        dist.init_process_group("gloo")
    asked = None if options.devices is None else str(local % options.devices)
    with probe.watch(name="ranked", devices=asked) as run:
        if meets and options.late:
            dist.init_process_group("gloo")
        print(f"RUN {run.path}\n", end="", flush=True)  # in one write, as ranks share the pipe
        train(run, options, draw)
    if drawn:
        rig.set_power(local, 60.0)
    with contextlib.suppress(Exception):
        dist.destroy_process_group()


def train(run: Any, options: Any, draw: Any) -> None:
    rank = int(os.environ["RANK"])

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            draw("forward", 30 if rank == options.slow else 15)
            return self.layers(x).square().mean()

    model: Any = Block()
    engine = None
    if options.engine.startswith("zero"):
        import deepspeed

        with contextlib.suppress(AttributeError, KeyError):
            deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.AdamW(model.parameters(), 1e-3),
            config={
                "train_micro_batch_size_per_gpu": 8,
                "gradient_clipping": 1.0,
                "zero_optimization": {"stage": int(options.engine[-1])},
            },
        )
    elif options.engine == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = None if engine else torch.optim.AdamW(model.parameters(), 1e-3)
    went_on = torch.ones(1)
    began = saved = time.monotonic()
    end = began + options.seconds
    left = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", 0)) - int(
        os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)
    )
    dies = options.die is not None and rank == 1 and left > 0
    steps = checkpoints = 0
    while True:
        over = time.monotonic() >= end or (options.until and os.path.exists(options.until))
        went_on.fill_(float(not over))
        if dist.is_initialized():
            dist.all_reduce(went_on, dist.ReduceOp.MIN)
        if not went_on.item():
            break
        has_saved = not options.save or checkpoints > 1  # a busy machine may be late with them
        if dies and has_saved and time.monotonic() > began + options.die:
            os.kill(os.getpid(), signal.SIGKILL)
        if options.save and time.monotonic() > saved + options.save:
            with run.phase("checkpoint"):
                draw("rest", 20)
            saved = time.monotonic()
            checkpoints += 1
        x = torch.randn(8, 64)
        loss = engine(x) if engine else model(x)
        loss.register_hook(lambda gradient: draw("backward", 25) or gradient)
        if engine:
            engine.backward(loss)
            engine.step()
        else:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        draw("rest", 4)
        steps += 1
        run.log(loss=loss, samples=len(x))
    print(f"STEPS {steps}\n", end="", flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # DeepSpeed leaves threads behind
