"""DeepSpeed's ZeRO engine, its accumulation boundary set by hand so that k may change.

``set_train_batch_size`` changes k by a modulo over all micro-steps so far, which misaligns the
steps; ``set_gradient_accumulation_boundary`` does not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ...comm_bytes import Wire
from ...errors import TechniqueRefused, UsageError
from ...plan import Plan
from ...techniques.precision import accept_floats
from ...techniques.zero import configuration
from ..weight_average import average_of
from . import MakeOptimizer, Stepped

_AVERAGE = "average.pt"


class ZeroEngine:
    """See :class:`~optimizers.training.engines.Engine`."""

    def __init__(self, model: nn.Module, plan: Plan, make: MakeOptimizer, micro_batch: int):
        self._plan = plan
        self.wire = Wire()
        if plan.device == "cpu":
            os.environ.setdefault("DS_ACCELERATOR", "cpu")
        import deepspeed

        if plan.device == "cpu":
            # Its shared-memory collectives are compiled at the first start, for a minute, by a
            # compiler that may not be there; gloo does without.
            deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        if not dist.is_initialized():
            raise TechniqueRefused("zero: no process group; start with torchrun or deepspeed")
        deepspeed.init_distributed(dist_backend=dist.get_backend(), verbose=False)
        self.module = plan.prepared(model.to(plan.device))
        if plan.precision.mode == "master":
            accept_floats(self.module, plan.precision.dtype)
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        optimizer = make(parameters, lr=plan.lr, **plan.optimizer)
        self._engine, self.optimizer, _, _ = deepspeed.initialize(
            model=self.module, optimizer=optimizer, config=configuration(plan, micro_batch)
        )
        self.model = self._engine
        self.average = average_of(plan, self.module, parameters, self.optimizer)

    @contextlib.contextmanager
    def micro_batch(self, *, last: bool) -> Any:
        self._engine.set_gradient_accumulation_boundary(last)
        yield

    def backward(self, loss: torch.Tensor) -> None:
        self._engine.backward(loss, scale_wrt_gas=False)
        if not self._engine.is_gradient_accumulation_boundary():
            self._engine.step()  # its count of micro-steps; nothing is stepped

    @property
    def loss_scale(self) -> float:
        scale = getattr(self.optimizer, "loss_scale", 1.0)
        return float(scale) if self._plan.precision.scaled else 1.0

    def step(self, *, want_norm: bool) -> Stepped:
        skipped = self._engine.skipped_steps
        self._engine.step()
        norm = self._engine.get_global_grad_norm() if want_norm else None
        return Stepped(None if norm is None else float(norm), self._engine.skipped_steps == skipped)

    def freeze(self, parameters: Iterable[nn.Parameter]) -> None:
        raise TechniqueRefused(
            "zero does not go with freezing: DeepSpeed divides the parameters that it was made with"
        )

    def save(self, folder: Path) -> None:
        self._engine.save_checkpoint(str(folder), tag="engine")
        if self.average is not None and dist.get_rank() == 0:  # the same on all of them
            torch.save(self.average.state(), folder / _AVERAGE)

    def files(self) -> None:
        """DeepSpeed writes its state itself."""
        return

    def load(self, folder: Path, *, same_ranks: bool) -> None:
        if not same_ranks:
            raise UsageError(
                "zero: DeepSpeed's state is divided among the ranks that saved it: resume with as "
                "many"
            )
        self._engine.load_checkpoint(str(folder), tag="engine")
        if self.average is not None:
            saved = folder / _AVERAGE
            self.average.restore(
                torch.load(saved, map_location=self._plan.device, weights_only=True)
                if saved.exists()
                else None
            )

    def close(self) -> None:
        self._engine.destroy()
