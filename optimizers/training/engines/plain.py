"""Plain torch on one rank, DistributedDataParallel on several."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ...comm_bytes import Wire
from ...communication import Communication, hook
from ...errors import UsageError
from ...plan import Plan
from ...techniques.precision import Masters, accept_floats
from ..weight_average import average_of
from . import MakeOptimizer, Stepped

_NOTHING: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()


class PlainEngine:
    """See :class:`~optimizers.training.engines.Engine`."""

    def __init__(self, model: nn.Module, plan: Plan, make: MakeOptimizer):
        self._plan = plan
        self.wire = Wire()
        precision = plan.precision
        model = model.to(plan.device)
        if precision.mode == "master":
            model = model.to(precision.dtype)
        self.module = plan.prepared(model)
        if precision.mode == "master":
            accept_floats(self.module, precision.dtype)
        self._parameters = [p for p in self.module.parameters() if p.requires_grad]
        self._masters: Masters | None = None

        def users(parameters: Any) -> torch.optim.Optimizer:
            return make(parameters, lr=plan.lr, **plan.optimizer)

        def optimizer_of(parameters: Any) -> torch.optim.Optimizer:
            if plan.compose_optimizer is None:
                return users(parameters)
            return plan.compose_optimizer(self.module, parameters, users)

        if precision.mode == "master":
            self._masters = Masters(self._parameters, optimizer_of)
            self.optimizer, self._stepped = self._masters.optimizer, self._masters.copies
        else:
            self.optimizer, self._stepped = optimizer_of(self._parameters), self._parameters
        self.average = average_of(plan, self.module, self._stepped, self.optimizer)
        self.model: Any = self._distributed() if plan.world > 1 else self.module
        self._scaler = torch.amp.GradScaler(plan.device) if precision.scaled else None
        self._communication: Communication | None = None
        if plan.compression is not None:
            self._communication = plan.compression(self.module, self.wire)
            self._communication.check(self.optimizer)
            parallel: Any = self.model
            parallel.register_comm_hook(self._communication, hook)

    def _distributed(self) -> nn.parallel.DistributedDataParallel:
        on_gpu = self._plan.device == "cuda"
        return nn.parallel.DistributedDataParallel(
            self.module,
            device_ids=[torch.cuda.current_device()] if on_gpu else None,
            bucket_cap_mb=self._plan.bucket_mb,
        )

    @contextlib.contextmanager
    def _nested(self, last: bool) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if not last and self._plan.world > 1:
                stack.enter_context(self.model.no_sync())
            if self._plan.precision.mode == "autocast":
                stack.enter_context(torch.autocast(self._plan.device, self._plan.precision.dtype))
            yield

    def micro_batch(self, *, last: bool) -> contextlib.AbstractContextManager[Any]:
        if self._plan.world == 1 and self._plan.precision.mode != "autocast":
            return _NOTHING
        return self._nested(last)

    def backward(self, loss: torch.Tensor) -> None:
        context = _NOTHING
        if self._plan.precision.mode == "autocast":
            context = torch.autocast(self._plan.device, enabled=False)  # as torch.amp's rules ask
        with context:
            (loss if self._scaler is None else self._scaler.scale(loss)).backward()

    @property
    def loss_scale(self) -> float:
        return 1.0 if self._scaler is None else self._scaler.get_scale()

    def step(self, *, want_norm: bool) -> Stepped:
        if self._masters is not None:
            self._masters.collect()
        clip, norm, norm_s = self._plan.clip_norm, None, 0.0
        if self._scaler is not None:
            self._scaler.unscale_(self.optimizer)
        if clip is not None:
            norm = nn.utils.clip_grad_norm_(self._stepped, clip)
        elif want_norm:
            begin = time.perf_counter()
            gradients = [p.grad for p in self._stepped if p.grad is not None]
            if all(gradient.layout is torch.strided for gradient in gradients):
                norm = nn.utils.get_total_norm(gradients)
            norm_s = time.perf_counter() - begin
        applied = True
        if self._scaler is None:
            self.optimizer.step()
        else:
            before = self._scaler.get_scale()
            self._scaler.step(self.optimizer)
            self._scaler.update()
            applied = self._scaler.get_scale() >= before
        if self._communication is not None:
            self._communication.after_step(self._stepped)
            if self._masters is not None and self._communication.ranks_differ:
                self._masters.publish()  # the copies are averaged
        self.optimizer.zero_grad(set_to_none=True)
        wanted = float(norm) if want_norm and norm is not None else None
        return Stepped(wanted, applied, norm_s)

    def freeze(self, parameters: Iterable[nn.Parameter]) -> None:
        for parameter in parameters:
            parameter.requires_grad_(False)
            parameter.grad = None
        if self._plan.world > 1:
            self.model = self._distributed()  # which would wait for their gradients for ever

    def save(self, folder: Path) -> None:
        for name, content in self.files().items():
            torch.save(content, folder / name)

    def files(self) -> dict[str, object]:
        """What :meth:`save` writes on this rank, by the file's name."""
        rank = dist.get_rank() if self._plan.world > 1 else 0
        files: dict[str, object] = {}
        if self._communication is not None:  # what this rank has not sent yet
            files[f"hook-{rank}.pt"] = self._communication.snapshot()
        if rank == 0 or self._ranks_differ:  # else it is the same on all of them
            files[self._file_name()] = {
                "model": self.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self._scaler.state_dict() if self._scaler else None,
                "masters": [c.detach() for c in self._masters.copies] if self._masters else None,
                "average": self.average.state() if self.average else None,
            }
        return files

    def load(self, folder: Path, *, same_ranks: bool) -> None:
        if self._ranks_differ and not same_ranks:
            raise UsageError(
                "weights that differ between ranks (local_sgd) go on with as many ranks as saved "
                "them only"
            )

        def read(path: Path) -> dict[str, Any]:
            saved: dict[str, Any] = torch.load(
                path, map_location=self._plan.device, weights_only=True
            )
            return saved

        state = read(folder / self._file_name())
        self.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self._scaler is not None:
            self._scaler.load_state_dict(state["scaler"])
        if self._masters is not None:
            self._masters.restore(state["masters"])
        if self.average is not None:
            self.average.restore(state.get("average"))
        if self._communication is not None and same_ranks:  # else what was not sent is dropped
            self._communication.restore(read(folder / f"hook-{dist.get_rank()}.pt"))

    @property
    def _ranks_differ(self) -> bool:
        return self._communication is not None and self._communication.ranks_differ

    def _file_name(self) -> str:
        """Where the state of model and optimizer is."""
        return f"engine-{dist.get_rank()}.pt" if self._ranks_differ else "engine.pt"

    def close(self) -> None:
        """Nothing to free: tensors and DDP go with the engine."""
