"""Real training stacks under the phase engine: steps, microbatches, phases, graph breaks."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import SCRIPTS

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from ..fakes.phase_recording import Watched, watched  # noqa: E402

N = 6
LOSS = nn.CrossEntropyLoss()
BACKEND = "aot_eager"  # dynamo and autograd as in production, without a compiler run


class Net(nn.Module):
    def __init__(self, checkpointed: str = ""):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.head = nn.Linear(64, 10)
        self.checkpointed = checkpointed

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            if self.checkpointed:
                x = checkpoint(
                    lambda y, layer=layer: torch.relu(layer(y)),
                    x,
                    use_reentrant=self.checkpointed == "reentrant",
                )
            else:
                x = torch.relu(layer(x))
        return self.head(x)


@pytest.fixture(autouse=True)
def _clean() -> Any:
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    before = (
        torch.autograd._engine_run_backward,
        torch.amp.GradScaler.step,
        dist.all_reduce,
        torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
        torch.utils.checkpoint.CheckpointFunction.backward,
    )
    yield
    torch.set_num_threads(threads)
    after = (
        torch.autograd._engine_run_backward,
        torch.amp.GradScaler.step,
        dist.all_reduce,
        torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
        torch.utils.checkpoint.CheckpointFunction.backward,
    )
    assert before == after, "a patch was left behind"


def loader(batch: int = 16, batches: int = 64) -> DataLoader[Any]:
    data = TensorDataset(torch.randn(batch * batches, 64), torch.randint(0, 10, (batch * batches,)))
    return DataLoader(data, batch_size=batch)


def train(
    model: Any,
    optimizer: Any,
    *,
    steps: int = N,
    k: int = 1,
    scaler: Any = None,
    dtype: Any = None,
    no_sync: Any = None,
    clip: bool = True,
    step: Any = None,
) -> None:
    batches = iter(loader())
    for _ in range(steps):
        for j in range(k):
            x, y = next(batches)
            if getattr(model, "checkpointed", "") == "reentrant":
                x.requires_grad_(True)
            quiet = no_sync() if no_sync and j < k - 1 else contextlib.nullcontext()
            with quiet:
                with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                    loss = LOSS(model(x), y) / k
                (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            (step or optimizer.step)()
        optimizer.zero_grad()


def breaks() -> int:
    return sum(torch._dynamo.utils.counters["graph_break"].values())


def expect(run: Watched, steps: int = N, micro: int = 1, *, inferred: bool = False) -> None:
    assert run.steps == steps, run.sequence()
    assert run.micros == [micro] * steps
    assert run.counts["backward"] == steps * micro
    assert run.counts["optimizer"] == steps
    assert run.counts["forward"] >= steps
    assert bool(run.inferred) == inferred


@pytest.mark.parametrize("passed", [True, False], ids=["model-passed", "no-arguments"])
class TestLoops:
    """The same loops with and without the arguments of watch()."""

    def test_plain(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer)
        expect(run, inferred=not passed)
        assert run.inferred == (0 if passed else 1)  # the first step: nobody knew the root
        assert run.counts["forward"] == N and run.counts["data"] == N
        assert "__call__" not in vars(Net)

    def test_accumulation(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer, k=4)
        expect(run, micro=4, inferred=not passed)

    @pytest.mark.parametrize("kind", ["non-reentrant", "reentrant"])
    def test_checkpoint(self, tmp_path: Path, passed: bool, kind: str) -> None:
        model = Net(kind)
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer)
        expect(run, inferred=not passed)
        assert run.counts["recompute"] == 4 * N
        assert run.seconds("recompute", skip=2) > 0

    def test_scaler(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer, scaler=torch.amp.GradScaler("cpu"), dtype=torch.float16)
        assert run.steps == N and run.micros == [1] * N
        assert run.counts["optimizer"] == 2 * N  # unscale_ and step, clipping in between

    def test_evaluation(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer)
            model.eval()
            with torch.no_grad():
                for x, _ in loader(batches=5):
                    model(x)
        expect(run, inferred=not passed)
        assert run.counts["eval"] == 5

    def test_forward_twice(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            for x, y in loader(batches=N):
                loss = LOSS(model(x), y) + LOSS(model(x.flip(0)), y.flip(0))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        expect(run, inferred=not passed)

    def test_lbfgs(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
        x, y = next(iter(loader()))

        def closure() -> Any:
            optimizer.zero_grad()
            loss = LOSS(model(x), y)
            loss.backward()
            return loss

        with watched(tmp_path, model if passed else None) as run:
            for _ in range(3):
                optimizer.step(closure)
        assert run.steps == 3
        assert all(1 <= micro <= 5 for micro in run.micros)
        assert run.seconds("forward") > 0 and run.seconds("optimizer") > 0

    def test_two_optimizers_of_one_model_are_one_step(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        first = torch.optim.SGD(model.layers.parameters(), lr=1e-3)
        second = torch.optim.AdamW(model.head.parameters())
        with watched(tmp_path, model if passed else None) as run:
            for x, y in loader(batches=N):
                LOSS(model(x), y).backward()
                first.step()
                second.step()
                model.zero_grad()
        assert run.steps == N and run.micros == [1] * N

    def test_optimizer_in_backward(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        each = {p: torch.optim.SGD([p], lr=1e-3) for p in model.parameters()}

        def step(parameter: Any) -> None:
            each[parameter].step()
            each[parameter].zero_grad()

        for parameter in each:
            parameter.register_post_accumulate_grad_hook(step)
        with watched(tmp_path, model if passed else None) as run:
            for x, y in loader(batches=N):
                LOSS(model(x), y).backward()
        assert run.steps == N and run.micros == [1] * N


def test_hand_written_loop_without_arguments(tmp_path: Path) -> None:
    """nanoGPT's loop: get_batch, k microsteps, estimate_loss every other step."""
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())

    def get_batch() -> Any:
        return torch.randn(16, 64), torch.randint(0, 10, (16,))

    @torch.no_grad()
    def estimate_loss() -> None:
        model.eval()
        for _ in range(3):
            x, y = get_batch()
            LOSS(model(x), y)
        model.train()

    with watched(tmp_path) as run:
        for step in range(N):
            if step % 2 == 0:
                estimate_loss()
            for _ in range(3):
                x, y = get_batch()
                (LOSS(model(x), y) / 3).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    assert run.steps == N and run.micros == [3] * N
    assert run.counts["forward"] == 3 * N - 2  # found at the second backward of the first step
    assert run.counts["eval"] == 2 * 3
    assert not run.inferred
    assert run.engine.model_found == "found by its parameters: Net"
    assert run.engine.parameters_hash


def test_scaler_skips_a_step(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    called = []
    optimizer.register_step_post_hook(lambda *_: called.append(1))
    with watched(tmp_path, model) as run:
        for step, (x, y) in enumerate(loader(batches=N)):
            scaler.scale(LOSS(model(x), y)).backward()
            if step == 2:
                model.head.bias.grad.fill_(float("inf"))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert len(called) == N - 1
    expect(run)


@pytest.mark.filterwarnings("error:Dynamo does not know")
@pytest.mark.parametrize("grads_to_none", [True, False])
@pytest.mark.parametrize("passed", ["model", "optimizer", "nothing"])
def test_compiled_optimizer_step(tmp_path: Path, grads_to_none: bool, passed: str) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3))

    @torch.compile(fullgraph=False, backend=BACKEND)
    def step() -> None:
        optimizer.step()

    for x, y in loader(batches=2):  # compiled before it is watched: the hooks never run
        LOSS(model(x), y).backward()
        step()
        optimizer.zero_grad()
    given = {"model": (model, None), "optimizer": (None, optimizer), "nothing": ()}[passed]
    with watched(tmp_path, *given) as run:
        for x, y in loader(batches=N):
            LOSS(model(x), y).backward()
            step()
            optimizer.zero_grad(set_to_none=grads_to_none)
    assert run.steps >= N - 1 and sum(run.micros) >= N - 1, run.sequence()


def test_gradients_stolen_between_backwards_stay_one_step(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watched(tmp_path, model) as run:
        batches = iter(loader())
        for _ in range(10):
            kept = []
            for _ in range(3):
                x, y = next(batches)
                LOSS(model(x), y).backward()
                kept.append([p.grad for p in model.parameters()])
                for p in model.parameters():
                    p.grad = None
            for p, *grads in zip(model.parameters(), *kept, strict=True):
                p.grad = torch.stack(grads).sum(0)
            optimizer.step()
            optimizer.zero_grad()
    assert run.micros[-6:] == [3] * 6, run.micros


class TestCompile:
    @pytest.mark.parametrize("fullgraph", [True, False])
    def test_watch_then_compile(self, tmp_path: Path, fullgraph: bool) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model) as run:
            compiled = torch.compile(model, fullgraph=fullgraph, backend=BACKEND)
            train(compiled, optimizer)
        assert breaks() == 0
        expect(run)

    def test_compile_then_watch(self, tmp_path: Path) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        compiled = torch.compile(model, fullgraph=True, backend=BACKEND)
        with watched(tmp_path, compiled) as run:
            train(compiled, optimizer)
        assert breaks() == 0
        expect(run)

    def test_compiled_and_warm_then_watch_finds_the_wrapper(self, tmp_path: Path) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        compiled = torch.compile(model, fullgraph=True, backend=BACKEND)
        train(compiled, optimizer)
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        with watched(tmp_path) as run:
            train(compiled, optimizer)
        assert breaks() == 0
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs  # no recompile
        expect(run, inferred=True)
        assert run.engine.model_found.endswith("OptimizedModule")

    @pytest.mark.parametrize("passed", ["model", "nothing", "model, compiled after"])
    def test_compiled_in_place(self, tmp_path: Path, passed: str) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        if not passed.endswith("after"):
            model.compile(fullgraph=True, backend=BACKEND)
        with watched(tmp_path, None if passed == "nothing" else model) as run:
            if passed.endswith("after"):
                model.compile(fullgraph=True, backend=BACKEND)
            train(model, optimizer)
        assert breaks() == 0
        expect(run, inferred=passed == "nothing")
        assert run.inferred == (passed == "nothing")

    def test_with_hooks_of_the_users(self, tmp_path: Path) -> None:
        """Dynamo goes through what we put on the class then."""
        model = Net()
        heard = []
        model.register_forward_pre_hook(lambda *_: heard.append(1))
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model) as run:
            outer = nn.Sequential(model, nn.ReLU())
            train(torch.compile(outer, fullgraph=True, backend=BACKEND), optimizer)
        assert breaks() == 0 and len(heard) == N
        assert run.steps == N and run.micros == [1] * N

    def test_user_phase_and_collective_inside_a_graph(self, tmp_path: Path) -> None:
        with process_group(tmp_path), watched(tmp_path):

            @torch.compile(fullgraph=True, backend=BACKEND)
            def reduced(x: Any) -> Any:
                y = x * 2
                dist.all_reduce(y)
                return y + 1

            assert reduced(torch.ones(3)).tolist() == [3.0, 3.0, 3.0]
        assert breaks() == 0


@contextlib.contextmanager
def process_group(tmp_path: Path) -> Any:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


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
            expect(run, inferred=passed == "nothing")
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
        """Reducing takes 15 ms longer than computing: that is communication, not backward."""
        late_s = 0.015
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
            assert 0.9 * late_s < per_step < late_s + 0.01
            assert run.seconds("backward", skip=2) / (N - 2) < per_step / 2
        for one in waits:
            one.join()

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


@pytest.mark.parametrize(
    "stack", ["deepspeed", "hf", "lightning", "lightning_inner", "lightning_auto"]
)
def test_framework(tmp_path: Path, stack: str) -> None:
    module = {"hf": "transformers"}.get(stack, stack.split("_")[0])
    pytest.importorskip(module, reason=f"{module} is not installed: pip install {module}")
    script = SCRIPTS / "train_in_frameworks.py"
    done = subprocess.run(
        [sys.executable, "-m", "tests.scripts.train_in_frameworks", stack, str(tmp_path)],
        cwd=script.parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.parametrize("where", ["data", "forward", "backward", "optimizer", "phase"])
@pytest.mark.parametrize("caught", [True, False])
def test_exceptions(tmp_path: Path, where: str, caught: bool) -> None:
    """The user's exception passes through unchanged; training may go on after it."""

    class Trouble(Exception):
        pass

    armed = [False]

    def trouble(place: str) -> None:
        if armed[0] and place == where:
            armed[0] = False
            raise Trouble(place)

    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(_ctx: Any, grad: Any) -> Any:
            trouble("backward")
            return grad

    class Fragile(Net):
        def forward(self, x: Any) -> Any:
            trouble("forward")
            return Noisy.apply(super().forward(x))

    class Data(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 1 << 20

        def __getitem__(self, _i: int) -> Any:
            trouble("data")
            return torch.randn(64), 1

    class Optimizer(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            trouble("optimizer")
            super().step(closure)

    model = Fragile()
    optimizer = Optimizer(model.parameters(), lr=1e-3)
    batches = iter(DataLoader(Data(), batch_size=2))

    def step(run: Watched) -> None:
        with run.engine.phase("wrap") if where == "phase" else contextlib.nullcontext():
            trouble("phase")
        x, y = next(batches)
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    def all_steps(run: Watched) -> None:
        for i in range(N):
            armed[0] = i == 2
            if caught:
                try:
                    step(run)
                except Trouble as error:
                    assert str(error) == where
                    assert error.__context__ is None
                    optimizer.zero_grad()
            else:
                step(run)

    if caught:
        with watched(tmp_path, model) as run:
            all_steps(run)
        assert run.steps == N - 1 or where == "optimizer"
        assert run.counts["forward"] >= N - 2
        assert run.sequence()[-1] == "other"
    else:
        with pytest.raises(Trouble, match=where), watched(tmp_path, model, failed=True) as run:
            all_steps(run)
    assert "__call__" not in vars(Fragile)


class TestModelStaysUsable:
    def test_ema_deepcopy(self, tmp_path: Path) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model) as run:
            average = copy.deepcopy(model)
            train(model, optimizer)
            x, _ = next(iter(loader()))
            marks = run.engine._ring.offered()
            average(x)
            torch.compile(average, backend=BACKEND, fullgraph=True)(x)
            assert run.engine._ring.offered() == marks
            pickle.loads(pickle.dumps(average))(x)
        expect(run)
        assert breaks() == 0

    def test_pickle_needs_no_phasewatt(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.Linear(4, 4))
        with watched(tmp_path, model):
            file = io.BytesIO()
            torch.save(model, file)
            state = list(model.state_dict())
        assert b"probe" not in file.getvalue()
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        x = torch.randn(2, 4)
        assert torch.equal(loaded(x), model(x))
        assert torch.equal(torch.compile(loaded, backend="eager")(x), model(x))
        assert state == list(model.state_dict())

    @pytest.mark.filterwarnings("ignore")
    def test_jit(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        x = torch.randn(2, 4)
        with watched(tmp_path, model):
            assert torch.equal(torch.jit.script(model)(x), model(x))
            assert torch.equal(torch.jit.trace(model, x)(x), model(x))

    def test_export(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        x = torch.randn(2, 4)
        with watched(tmp_path, model):
            program = torch.export.export(model, (x,))
        assert torch.equal(program.module()(x), model(x))


@pytest.mark.parametrize("loop", ["plain", "accumulate", "checkpoint", "scaler", "dropout"])
def test_results_are_bit_identical(tmp_path: Path, loop: str) -> None:
    def final(run: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
        torch.manual_seed(7)
        model: Any = Net("non-reentrant" if loop == "checkpoint" else "")
        if loop == "dropout":
            model = nn.Sequential(model, nn.Dropout(0.3), nn.BatchNorm1d(10))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        options: dict[str, Any] = {"k": 3} if loop == "accumulate" else {}
        if loop == "scaler":
            options = {"scaler": torch.amp.GradScaler("cpu"), "dtype": torch.float16}
        with run(model) as watch:
            train(model, optimizer, **options)
            for p in model.parameters():
                if watch is not None:
                    watch.engine.values.log({"norm": p.detach().norm()})
        tensors = [t.clone() for t in model.state_dict().values()]
        return [*tensors, torch.get_rng_state()], [p._version for p in model.parameters()]

    bare, versions = final(lambda _model: contextlib.nullcontext())
    for given in (lambda model: watched(tmp_path, model), lambda _model: watched(tmp_path)):
        seen, counted = final(given)
        assert all(torch.equal(a, b) for a, b in zip(bare, seen, strict=True))
        assert versions == counted
