"""DDP and collectives: what waits for other ranks is communication."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from tests.fakes.phase_recording import Watched, watched  # noqa: E402
from tests.fakes.training_loop import LOSS, N, Net, expect, loader, process_group, train  # noqa: E402


class TestDistributed:
    @pytest.mark.parametrize("passed", ["wrapper", "inner", "nothing"])
    def test_ddp(self, tmp_path: Path, passed: str) -> None:
        with process_group(tmp_path):
            inner = Net()
            model = nn.parallel.DistributedDataParallel(inner)
            optimizer = torch.optim.AdamW(model.parameters())
            given = {"wrapper": model, "inner": inner, "nothing": None}[passed]
            with watched(tmp_path, given) as run:
                train(model, optimizer)
            expect(run)
            assert run.counts["communication"] == N  # backward waits for the last bucket
            if passed == "nothing":
                assert run.engine.model_found.endswith("DistributedDataParallel")

    def test_no_sync(self, tmp_path: Path) -> None:
        with process_group(tmp_path):
            model = nn.parallel.DistributedDataParallel(Net())
            optimizer = torch.optim.AdamW(model.parameters())
            with watched(tmp_path, model) as run:
                train(model, optimizer, k=4, no_sync=model.no_sync)
            expect(run, micro=4)
            assert run.counts["communication"] == N  # of the last micro-batch alone

    def test_what_backward_waits_after_the_last_gradient(self, tmp_path: Path) -> None:
        """Reducing takes 0.1 s longer than computing: that is communication, not backward."""
        late_s = 0.1  # longer than a backward on a busy machine
        waits: list[threading.Thread] = []

        def hook(_state, bucket):  # DDP checks annotations, and these are text here
            reduced: torch.futures.Future[torch.Tensor] = torch.futures.Future()

            def finish() -> None:
                time.sleep(late_s)
                reduced.set_result(bucket.buffer())

            waits.append(threading.Thread(target=finish))
            waits[-1].start()
            return reduced

        with process_group(tmp_path):
            model = nn.parallel.DistributedDataParallel(Net())
            model.register_comm_hook(None, hook)
            optimizer = torch.optim.AdamW(model.parameters())
            with watched(tmp_path, model) as run:
                train(model, optimizer, k=2, no_sync=model.no_sync)
            expect(run, micro=2)
            assert run.counts["communication"] == N
            per_step = run.seconds("communication", skip=2) / (N - 2)
            # A thread of a busy machine wakes late; what passes before that is backward's.
            assert 0.6 * late_s < per_step < 2 * late_s
            assert run.seconds("backward", skip=2) / (N - 2) < per_step
        for wait in waits:
            wait.join()

    def test_a_backward_that_raises_and_a_second_watch(self, tmp_path: Path) -> None:
        with process_group(tmp_path):
            model = nn.parallel.DistributedDataParallel(Net())
            optimizer = torch.optim.AdamW(model.parameters())

            def fail(_gradient: torch.Tensor) -> None:
                raise RuntimeError("of the user's")

            with watched(tmp_path, model) as run:
                x, y = next(iter(loader()))
                parameter = next(model.parameters())  # after the last one's
                hook = parameter.register_hook(fail)
                with pytest.raises(RuntimeError, match="of the user's"):
                    LOSS(model(x), y).backward()
                hook.remove()
                model = nn.parallel.DistributedDataParallel(Net())
                optimizer = torch.optim.AdamW(model.parameters())
                train(model, optimizer, steps=2)
            assert run.counts["communication"] == 2 and run.steps == 2
            train(model, optimizer, steps=1)
            with watched(tmp_path, model) as run:
                train(model, optimizer)
            expect(run)
            assert run.counts["communication"] == N

    def test_the_last_parameter_is_not_used(self, tmp_path: Path) -> None:
        class Idle(Net):
            def __init__(self) -> None:
                super().__init__()
                self.zzz = nn.Linear(2, 2)

        with process_group(tmp_path):
            model = nn.parallel.DistributedDataParallel(Idle(), find_unused_parameters=True)
            optimizer = torch.optim.AdamW(model.parameters())
            with watched(tmp_path, model) as run:
                train(model, optimizer)
            expect(run)
            assert run.counts["communication"] == N

    def test_compiled(self, tmp_path: Path) -> None:
        """The model is compiled into as many graphs as without us."""

        def graphs(watch: bool) -> tuple[int, Any]:
            compiled: list[int] = []

            def backend(graph: Any, inputs: Any) -> Any:
                if any(node.op == "call_function" for node in graph.graph.nodes):
                    compiled.append(len(graph.graph.nodes))
                return graph

            torch._dynamo.reset()
            model = nn.parallel.DistributedDataParallel(Net())
            optimizer = torch.optim.AdamW(model.parameters())
            block = watched(tmp_path, model) if watch else contextlib.nullcontext()
            with block as run:
                train(torch.compile(model, backend=backend), optimizer)
            return sum(compiled), run

        with process_group(tmp_path):
            alone, _ = graphs(False)
            beside, run = graphs(True)
        assert alone == beside > 0
        expect(run)
        assert run.counts["communication"] == N

    @staticmethod
    def meeting(tmp_path: Path, meet: Callable[[Any, torch.Tensor], object]) -> Watched:
        """Steps in which ranks meet between backward and optimizer."""
        with process_group(tmp_path):
            model = Net()
            optimizer = torch.optim.AdamW(model.parameters())
            with watched(tmp_path, model) as run:
                for x, y in loader(batches=N):
                    loss = LOSS(model(x), y)
                    loss.backward()
                    meet(model, loss.detach())
                    optimizer.step()
                    optimizer.zero_grad()
            expect(run)
        return run

    def test_collectives(self, tmp_path: Path) -> None:
        def meet(model: Any, _loss: torch.Tensor) -> None:
            for p in model.parameters():
                dist.all_reduce(p.grad)
            dist.all_reduce(torch.ones(2), async_op=True).wait()

        # What did not block is waited for.
        assert self.meeting(tmp_path, meet).counts["communication"] == 11 * N

    def test_functional_collectives(self, tmp_path: Path) -> None:
        from torch.distributed import _functional_collectives as functional

        run = self.meeting(
            tmp_path,
            lambda _model, loss: functional.all_reduce(loss, "sum", dist.group.WORLD).wait(),
        )
        assert run.counts["communication"] == N

    def test_collective_inside_backward(self, tmp_path: Path) -> None:
        with process_group(tmp_path):
            model = Net()
            optimizer = torch.optim.AdamW(model.parameters())
            for p in model.parameters():
                p.register_hook(lambda g: dist.all_reduce(g))
            with watched(tmp_path, model) as run:
                train(model, optimizer)
            expect(run)
            assert run.counts["communication"] == 10 * N
