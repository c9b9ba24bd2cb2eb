"""The training loop, watched from its first step. :meth:`Trainer._step` is the core of it."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.utils.data import Dataset, default_collate

import probe
from probe.compare.run_record import NO_MFU
from probe.instrument.roofline.ridge import kept_ridge
from probe.instrument.roofline.step_classifier import is_elementwise
from probe.report.model import JsonValue

from ..analysis import flops, memory, roofline
from ..errors import TrainingFailed, UsageError
from ..plan import RATE_FACTOR, Plan
from ..stack import Stack
from ..techniques.accumulation import KPolicy, pieces, size
from ..techniques.freezing import front
from ..techniques.schedule import rate
from . import snapshot
from .ascent import Ascent
from .background import BackgroundWriter
from .budget import Budget, Purse
from .data import Batches, moved
from .engines import Engine, MakeOptimizer, make_engine
from .failures import one_line, out_of_memory
from .fit_activations import Fitted, fitted
from .gradients import LOOK_EVERY, GradientWatch
from .last_values import last_values
from .progress import Bar
from .ranks import agreed, join_ranks, resident_memory
from .result import Result
from .search_k import copied, search
from .stopwatch import Stopwatch
from .target_progress import Progress, Target

Loss = Callable[[nn.Module, Any], torch.Tensor]
Evaluate = Callable[[nn.Module], Mapping[str, float]]


class Trainer:
    """Trains a model with a stack of techniques, watched: ``Trainer(model, data, loss, …).fit()``.

    The plan is made here, once; ``table`` says what is on, where it comes from and what it should
    change. :meth:`fit` trains and gives a :class:`Result`, :meth:`report` the joules and seconds of
    each phase. The same script runs on a CPU, on a GPU and, under ``torchrun``, on several ranks.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Dataset[Any],
        loss: Loss,
        *,
        samples: int,
        stack: Stack | None = None,
        batch_size: int = 32,
        lr: float = 1e-4,
        optimizer: MakeOptimizer | None = None,
        evaluate: Evaluate | None = None,
        eval_every: int | None = None,
        target: str | None = None,
        budget: Budget | None = None,
        device: str | None = None,
        seed: int = 0,
        name: str | None = None,
        dir: str | Path | None = None,  # noqa: A002 (as in probe.watch)
        snapshots: str | Path | None = None,
        snapshot_every: int = 0,
        snapshots_in_background: bool = False,
        config: Mapping[str, Any] | None = None,
        data_name: str | None = None,
        quiet: bool = False,
        modules: bool = False,
        classify: bool = True,
    ):
        """Plan the training and prepare model and engine.

        Args:
            data: a map-style data set.
            loss: of the model and a batch; the mean over the batch's samples. To count operations
                it is called beforehand with one sample whose tensors are on ``meta`` and hold no
                values; if it looks at them, with one real sample. Nothing is trained by that.
            samples: to be consumed over all ranks; also the schedule's horizon.
            batch_size: |B|, over all ranks.
            optimizer: ``optimizer(parameters, lr=…)``; AdamW as in the paper's §IV-B.
            evaluate: gives metrics, called every ``eval_every`` samples and at the end;
                with ``ema`` or ``schedule_free`` of the averaged weights.
            target: ``"accuracy>=0.95"``: end when two evaluations in a row meet it.
            budget: end earlier, when so much time, energy or memory is used up.
            snapshots, snapshot_every: where the state is saved, every so many steps.
            snapshots_in_background: the training stands still for a copy of its state only, which a
                thread writes; not with ``zero``. Takes as much memory as the state, on the host.
            modules: as in :class:`probe.watch`.
            classify: count which part of a step waits for memory, for ``probe compare``: of the
                model before the techniques change it, or, where that cannot be counted, of the
                first step, as in :class:`probe.watch`.

        Raises:
            UsageError: an argument cannot be used; one line says why.
        """
        rank, world = join_ranks()
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.stack = stack or Stack.baseline()
        bare = Plan(device=self.device, world=world, batch_size=batch_size, lr=lr)
        self.plan = plan = self.stack.plan(bare)
        self.table = self.stack.table(bare)
        if world == plan.accumulation.k == 1 and not plan.accumulation.optimal:
            self.table += "\n  note: σ² is unknown: it takes two gradients a step, by k or by ranks"
        if samples < batch_size:
            raise UsageError(f"samples={samples} is less than one batch of {batch_size}")
        if target is not None and evaluate is None:
            raise UsageError(f"target={target!r} needs evaluate=, which measures it")
        self.rank, self._world, self._seed = rank, world, seed
        self._loss, self._evaluate = loss, evaluate
        self._eval_every = eval_every or samples
        self._progress = Progress(Target.of(target)) if target else None
        self._samples, self._budget = samples, budget or Budget()
        self._name, self._dir, self._quiet, self._modules = name, dir, quiet, modules
        self._config, self._data_name = dict(config or {}), data_name
        self._snapshots = Path(snapshots) if snapshots else None
        self._snapshot_every = snapshot_every
        if snapshots_in_background and plan.zero_stage is not None:
            raise UsageError(
                "snapshots_in_background: DeepSpeed writes its state itself; leave out"
            )
        self._writer: BackgroundWriter | None = None
        if snapshots_in_background and self._snapshots is not None:
            self._writer = BackgroundWriter(self._snapshots)
        self._watched: str | None = None  # the run that a snapshot was saved in
        self._batches = Batches(data, plan, rank=rank, seed=seed)
        self._policy = KPolicy(plan.accumulation, world)
        self._splits = plan.accumulation.mode == "split"
        if plan.tf32:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        micro = max(1, plan.per_rank // (plan.accumulation.k if self._splits else 1))
        self._classify = classify
        self._flops, self._roofline = self._count(model, data, micro)
        self._copy = copied(model) if plan.accumulation.optimal else None
        self._data, self._measured_k = data, cast("dict[str, JsonValue] | None", None)
        self._fitted: Fitted | None = None
        if plan.activations is not None:
            self._fitted = fitted(model, plan, loss, data, micro)
            self.plan = plan = self._fitted.plan
            self.table += f"\n{self._fitted.table}"
        self.engine: Engine = make_engine(model, plan, optimizer or adamw, micro)
        if self._roofline is not None and is_elementwise(self.engine.optimizer):
            self._roofline["memory_bound"]["optimizer"] = 1.0
        self._gradients = GradientWatch(
            self.engine.module.parameters(), plan, compiled="compile" in self.stack
        )
        self._frozen_from: float | None = None  # samples; None: nothing more is to be frozen
        if plan.freezing is not None:
            self._frozen_from = plan.freezing.start * samples
            self._front = front(self.engine.module, plan.freezing.layers)
        self._ascent: Ascent | None = None
        if plan.sharpness is not None:
            self._ascent = Ascent(plan.sharpness, self.engine.module)
        self._at = snapshot.Position()
        self._rate: float | None = None  # as set last
        # Asked once: a step that follows one of torch's kernels pays microseconds for each call.
        self._steady, self._scaled = plan.schedule.constant, plan.precision.scaled
        self._run: Any = None
        self._utilisation = flops.Utilisation(None)
        self._memory: dict[str, int] = {}  # bytes by component, seen in the first step

    def report(self) -> Any:
        """The phasewatt report of the last :meth:`fit`."""
        return self._run.report()

    def _count(
        self, model: nn.Module, data: Dataset[Any], micro: int
    ) -> tuple[float | None, dict[str, Any] | None]:
        """Count operations per sample, and the memory-bound part of each phase.

        Both of the model before the techniques change it. The memory-bound parts are for the
        classes of ``probe compare``.
        """
        before = snapshot.random_state()  # what is drawn here must not move the training
        try:
            sample = default_collate([data[0]])
            counts = None
            if self._classify:
                ridge = kept_ridge(torch.device(self.device), self.plan.precision.dtype)
                bound = roofline.memory_bound(model, self._loss, sample, micro, self.plan, ridge)
                counts = None if bound is None else {"memory_bound": bound, **asdict(ridge)}
            if self.plan.why_operations_vary is not None:
                return None, counts
            return flops.per_sample(model, self._loss, sample), counts
        finally:
            snapshot.set_random_state(before)

    # -- the loop --------------------------------------------------------------------

    def fit(self, *, resume: bool = False) -> Result:
        """Train until a budget is used up or the target is reached.

        With ``ema`` or ``schedule_free`` the model then holds the averaged weights.

        Args:
            resume: continue from the newest snapshot, if there is one, with as many ranks as saved
                it or (not with DeepSpeed or local_sgd) with others. If its run was killed, this is
                another attempt of it: see ``resume`` of :class:`probe.watch`.

        Raises:
            TrainingFailed: the loss is not finite, or there is no memory; the run is kept.
            UsageError: the snapshots cannot be read, or without ``resume`` there are some.
        """
        if resume:
            self._restore()
        elif self._snapshots is not None and (newest := snapshot.latest(self._snapshots)):
            raise UsageError(
                f"{newest} is the snapshot of an earlier training: go on with it by resume=True, "
                "or name another folder for snapshots="
            )
        self._search_k()
        watching = probe.watch(
            self.engine.module,
            self.engine.optimizer,
            name=self._name,
            dir=self._dir,
            target=str(self._progress.target) if self._progress else None,
            data=self._data_name,
            modules=self._modules,
            classify=self._classify and self._roofline is None,
            resume=self._watched,
            config={
                **self._config,
                "stack": self.stack.name,
                "techniques": self.stack.as_json(self.plan),
                "batch_size": self.plan.batch_size,
                "lr": self.plan.lr,
                "seed": self._seed,
                "samples": self._samples,
                "roofline": self._roofline,
                **({} if self._measured_k is None else {"measured_k": self._measured_k}),
                **({} if self._fitted is None else {"placement": self._fitted.stored}),
            },
        )
        before = 0 if self.device == "cuda" else resident_memory()
        silent = self._quiet or self.rank > 0
        with watching as run, Bar(self._samples, run.live, quiet=silent) as bar:
            self._run = run
            try:
                ended = self._train(run, bar)
                if self.engine.average is not None:
                    self.engine.average.publish()
                if self._writer is not None:
                    with run.phase("checkpoint"):
                        self._writer.finish()
                self._utilisation = self._utilised()
                run.log(
                    **last_values(
                        self._at,
                        self.device,
                        self._memory,
                        before,
                        self._utilisation,
                        self._flops,
                        self._progress,
                        None if self._fitted is None else self._fitted.again_s / self._world,
                    )
                )
                if self._utilisation.mfu is None and self.rank == 0:
                    run.note(f"{NO_MFU}{self._utilisation.reason}")
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                raise TrainingFailed(
                    f"no memory left in step {self._at.step + 1}: smaller batch_size, or the "
                    f"techniques accumulation, checkpointing, precision ({one_line(error)})"
                ) from error
        at, progress = self._at, self._progress
        return Result(
            at.step,
            at.samples,
            at.seconds,
            bool(progress and progress.reached),
            at.metrics,
            at.losses,
            run.path,
            progress.first if progress and progress.reached else None,
            ended,
            self._utilisation.mfu,
            self._utilisation.peak,
            self._utilisation.reason,
            at.train_seconds,
        )

    def _search_k(self) -> None:
        """Find the k of eq. (9), if it was asked for and no snapshot knows it."""
        copy_, self._copy = self._copy, None
        if copy_ is None or self._measured_k is not None:
            return
        choice = search(copy_, self.plan, self._loss, self._data)
        self._policy.k, self._measured_k = choice.k, choice.as_json()
        self.table += f"\n{choice.table()}"
        if not self._quiet and self.rank == 0:
            print(choice.table(), file=sys.stderr)

    def _utilised(self) -> flops.Utilisation:
        """The share of all ranks' peak that the steps reached, evaluations left out."""
        at = self._at
        if self.plan.why_operations_vary is not None:
            return flops.Utilisation(None, reason=self.plan.why_operations_vary)
        per_s = at.samples / self._world / at.train_seconds if at.train_seconds else 0.0
        peak = flops.peak(self.device, self.plan.precision.dtype) if self._flops else None
        return flops.utilisation(self._flops, per_s, peak)

    def _train(self, run: Any, bar: Bar) -> str:
        at, purse = self._at, Purse(self._budget, self.device, run)
        self.engine.model.train()
        next_eval = (at.samples // self._eval_every + 1) * self._eval_every
        self._watch = watch = Stopwatch(at, self.device)
        self._gradients.start(at)
        step_samples = self._samples_of_step()
        while at.samples + step_samples <= self._samples:
            loss = self._step(run)
            bar.step(step_samples, loss, self._policy.k)
            watch.tick()
            if at.samples >= next_eval:
                next_eval += self._eval_every
                if self._evaluated(run):
                    return "target"
                self.engine.model.train()
            if self._snapshots and self._snapshot_every and at.step % self._snapshot_every == 0:
                self._save(run)
            if self._writer is not None:
                self._writer.poll()
            if (spent := purse.spent(at.seconds)) is not None:
                watch.settle()
                return spent
            step_samples = self._samples_of_step()
        watch.settle()
        if self._evaluate and at.samples % self._eval_every:
            self._evaluated(run)
        return "samples"

    def _samples_of_step(self) -> int:
        """Samples of the next step, over all ranks."""
        return self.plan.batch_size * (1 if self._splits else self._policy.k)

    def _step(self, run: Any) -> torch.Tensor:
        """One optimizer step: k micro-batches, weighted by their samples, then the update."""
        engine, at, gradients = self.engine, self._at, self._gradients
        k = self._policy.k
        step_samples = self._samples_of_step()
        if self._rate is None or not self._steady:
            self._set_rate((at.samples + step_samples) / self._samples, step_samples)
        if self._frozen_from is not None and at.samples >= self._frozen_from:
            self._frozen_from = None
            engine.freeze(self._front)
        micro_batches = self._micro_batches(k)
        rank_samples = step_samples // self._world  # of this rank
        ascent, mean_loss = self._ascent, cast("torch.Tensor | None", None)
        climbs = ascent is not None and ascent.due(at.step)
        loss_there = self._climb(micro_batches, rank_samples) if climbs else None
        measured = gradients.begin(at, k)
        for j, batch in enumerate(micro_batches):
            share = 1.0 if k == 1 else size(batch) / rank_samples
            with engine.micro_batch(last=j == k - 1):
                loss = self._loss(engine.model, batch) if self._memory else self._first_loss(batch)
                engine.backward(loss if k == 1 else loss * share)
            if measured:
                gradients.micro_batch(share / self._world, share * engine.loss_scale)
            part = loss.detach() if k == 1 else loss.detach() * share
            mean_loss = part if mean_loss is None else mean_loss + part
        assert mean_loss is not None
        if ascent is not None and loss_there is not None:
            ascent.descend()
            mean_loss = loss_there
        stepped = engine.step(want_norm=measured)
        if "weights" not in self._memory:
            self._memory |= memory.held(engine.module, engine.optimizer)
        at.step += 1
        at.samples += step_samples
        if engine.average is not None and stepped.applied:
            engine.average.add(at.samples / self._samples, step_samples / self._samples)
        values: dict[str, float | torch.Tensor] = {"loss": mean_loss, "samples": rank_samples}
        if measured:
            sigma2, seen = gradients.end(stepped, k, step_samples)
            self._policy.saw(sigma2, 1 / k if self._splits else 1.0)
            values |= seen
        if self._scaled:
            values["loss_scale"] = engine.loss_scale
        run.log(**values)
        if at.step % LOOK_EVERY == 0 or at.step == 1:
            self._check_loss(float(mean_loss), stepped.applied)
        return mean_loss

    def _climb(self, micro_batches: list[Any], rank_samples: int) -> torch.Tensor:
        """Go to the point whose gradient the step takes; returns the loss of where it began."""
        engine, total = self.engine, torch.zeros((), device=self.device)
        for j, batch in enumerate(micro_batches):
            share = size(batch) / rank_samples
            with engine.micro_batch(last=j == len(micro_batches) - 1):
                loss = self._loss(engine.model, batch) * share
                engine.backward(loss)
            total += loss.detach()
        assert self._ascent is not None
        self._ascent.climb()
        return total

    def _first_loss(self, batch: Any) -> torch.Tensor:
        """The loss of the first micro-batch, with a count of what autograd keeps for backward."""
        if "compile" in self.stack:  # whose guards would see the hook, and compile again
            self._memory["activations"] = 0
            return self._loss(self.engine.model, batch)
        module = self.engine.module
        with memory.saving([*module.parameters(), *module.buffers()]) as total:
            loss = self._loss(self.engine.model, batch)
        self._memory["activations"] = total[0]
        return loss

    def _micro_batches(self, k: int) -> list[Any]:
        if self._splits:
            return pieces(self._next_batch(), k)
        return [self._next_batch() for _ in range(k)]

    def _next_batch(self) -> Any:
        batch = moved(next(self._batches), self.device)
        for change in self.plan.batches:
            batch = change(batch, self._at.samples / self._samples)
        return batch

    def _set_rate(self, done: float, step_samples: int) -> None:
        plan = self.plan
        lr = plan.lr * rate(plan.schedule, done, step_samples, plan.batch_size)
        if lr == self._rate:
            return
        self._rate = lr
        for group in self.engine.optimizer.param_groups:
            group["lr"] = lr * group.get(RATE_FACTOR, 1.0)

    def _check_loss(self, loss: float, applied: bool) -> None:
        self._at.losses.append(loss)
        if not math.isfinite(loss) and applied:
            raise TrainingFailed(
                f"the loss is {loss} in step {self._at.step}: lower lr "
                f"({self.plan.lr:g}), or add the technique clipping"
            )

    # -- evaluation and snapshots ----------------------------------------------------

    def _evaluated(self, run: Any) -> bool:
        """Evaluate the model; returns True if the target is reached."""
        if self._evaluate is None:
            return False
        at = self._at
        with self._watch.paused():
            trained_s = at.seconds
            self.engine.module.eval()
            average = self.engine.average
            shown = contextlib.nullcontext() if average is None else average.in_place()
            with run.phase("eval"), torch.no_grad(), shown:
                metrics = {
                    name: float(value) for name, value in self._evaluate(self.engine.module).items()
                }
            self.engine.module.train()
            at.metrics = metrics = agreed(metrics)  # or one rank might end, the others wait for it
        run.log(**{f"eval_{name}": value for name, value in metrics.items()})
        if self._progress is None:
            return False
        self._progress.saw(metrics, at.samples, trained_s)
        return self._progress.reached

    def _save(self, run: Any) -> None:
        assert self._snapshots is not None
        at = self._at
        with self._watch.paused(), run.phase("checkpoint"):
            state: snapshot.TrainerState = {
                "at": at.saved(),
                "consumed": self._batches.consumed,
                "policy": self._policy.state(),
                "random": snapshot.random_state(),
                "progress": self._progress.state() if self._progress else None,
                "measured_k": self._measured_k,
                "world": self._world,
                "run": str(Path(run.path).absolute()),
            }
            try:
                if self._writer is not None:
                    files = self.engine.files() or {}
                    self._writer.save(at.step, {**files, snapshot.state_file(): state})
                else:
                    snapshot.save(self._snapshots, at.step, state, self.engine.save)
            except (OSError, RuntimeError) as error:  # torch's writer raises the latter
                raise TrainingFailed(
                    f"the snapshot of step {at.step} cannot be written to "
                    f"{self._snapshots}: {one_line(error)}"
                ) from error

    def _restore(self) -> None:
        if self._snapshots is None:
            raise UsageError("resume=True needs snapshots=, the folder they are in")
        newest = snapshot.latest(self._snapshots)
        if newest is None:
            return
        state = snapshot.load(newest)
        self.engine.load(newest, same_ranks=state.get("world", self._world) == self._world)
        self._watched = state.get("run")
        self._at, self._rate = snapshot.Position(**state["at"]), None
        self._batches.resume(state["consumed"])
        self._policy.restore(state["policy"])
        self._measured_k = state.get("measured_k")
        if self._progress is not None and state["progress"] is not None:
            self._progress.restore(state["progress"])
        snapshot.set_random_state(state["random"])


def adamw(parameters: Any, *, lr: float, **arguments: Any) -> torch.optim.Optimizer:
    """The paper's §IV-B: β = (0.9, 0.999), weight decay 0.01."""
    return torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.999), weight_decay=0.01, **arguments)
