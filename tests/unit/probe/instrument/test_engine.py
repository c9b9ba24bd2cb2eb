"""The engine without a framework: threads, forks, names, values, what it leaves behind."""

from __future__ import annotations

import multiprocessing
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe.errors import StoreError
from probe.instrument import PhaseEngine
from probe.instrument.patches import registry
from probe.ring.layout import Code, EndCode, Record
from probe.ring.writer import RingWriter
from tests.fakes import processes
from tests.fakes.phase_recording import watched

torch = pytest.importorskip("torch", reason="torch is not installed")


def step(model: Any, optimizer: Any) -> None:
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def trained() -> tuple[Any, Any]:
    model = torch.nn.Linear(8, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


class TestEvaluations:
    """Between a training's data and an evaluation's nobody asks torch whether gradients flow."""

    @pytest.mark.parametrize("batches", [1, 2, 9], ids=["one", "two", "all"])
    def test_left_early_or_not(self, batches: int, tmp_path: Path) -> None:
        model, optimizer = trained()
        data = torch.utils.data.DataLoader(torch.randn(9, 8))

        def train() -> None:
            for x, _ in zip(data, range(2), strict=False):
                model(x).sum().backward()
                optimizer.step()

        with watched(tmp_path, model) as run:
            train()
            with torch.no_grad():
                for x, _ in zip(data, range(batches), strict=False):
                    model(x)
            train()
        assert run.counts["eval"] == batches
        assert run.counts["forward"] == run.counts["backward"] == run.steps == 4
        assert run.counts["data"] == 2 * 3

    def test_without_a_heard_forward(self, tmp_path: Path) -> None:
        weight = torch.zeros(8, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        data = torch.utils.data.DataLoader(torch.randn(4, 8))
        with watched(tmp_path) as run:
            for _ in range(2):
                for x in data:
                    (x * weight).sum().backward()
                    optimizer.step()
                with torch.no_grad():
                    for x in data:
                        x.sum()
                        break
        assert run.counts["forward"] == run.counts["backward"] == run.steps == 8


class TestOwnCalls:
    def test_a_class_whose_call_never_leads_to_torchs_is_heard(self, tmp_path: Path) -> None:
        class Own(torch.nn.Linear):
            def __call__(self, x: Any) -> Any:  # as gpytorch's modules
                return self.forward(x)

        class Derived(Own):
            pass

        class Frozen(type):
            def __setattr__(cls, name: str, value: Any) -> None:
                raise TypeError("nothing is set here")

        class Closed(torch.nn.Module, metaclass=Frozen):
            __call__ = Own.__call__

        def steps(number: int) -> None:
            for _ in range(number):
                model(torch.randn(4, 8)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()

        model, call, torchs = Derived(8, 2), Own.__call__, torch.nn.Module.__call__
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with watched(tmp_path) as run:
            steps(10)
        assert run.steps == 10
        assert run.counts["forward"] >= 8  # it is looked for after a step without a forward
        assert run.engine.model_found == "found by its parameters: Derived"
        assert Own.__call__ is call and torch.nn.Module.__call__ is torchs
        assert "__call__" not in vars(Derived)


class TestSaves:
    def test_what_is_computed_inside_a_save_is_part_of_it(self, tmp_path: Path) -> None:
        """A model card, an exported graph: forwards, batches, even a backward."""
        model, optimizer = trained()

        class Described(torch.nn.Linear):
            def __reduce__(self) -> Any:
                loader = torch.utils.data.DataLoader(torch.randn(4, 8), batch_size=2)
                with torch.no_grad():
                    for x in loader:
                        model(x)
                model(torch.randn(4, 8)).sum().backward()
                return torch.nn.Linear, (2, 2)

        with watched(tmp_path, model) as run:
            step(model, optimizer)
            torch.save(Described(2, 2), tmp_path / "saved.pt")
            step(model, optimizer)
        assert run.counts["checkpoint"] == 1 and run.micros == [1, 1]
        sequence = run.sequence()
        first = sequence.index("checkpoint") + 1
        assert set(sequence[first : sequence.index("other", first)]) <= {"saving_on"}, sequence


class TestStepsByHand:
    def test_a_step_ends_where_the_user_says(self, tmp_path: Path) -> None:
        with watched(tmp_path) as run:
            for _ in range(3):
                with run.engine.phase("train"):
                    pass
                run.engine.step()
        assert run.steps == 3 and run.micros == [0, 0, 0]
        assert run.sequence() == ["startup", *["train", "other"] * 3]

    def test_what_precedes_the_first_is_startup(self, tmp_path: Path) -> None:
        with watched(tmp_path) as run:
            run.engine.step()
            run.engine.step()
        assert run.steps == 2 and run.sequence() == ["startup", "other"]

    def test_signals_end_none_any_more(self, tmp_path: Path) -> None:
        """Two updates are one step of the user's, before torch would have found the first."""
        model, optimizer = trained()
        with watched(tmp_path, model) as run:
            for _ in range(4):
                step(model, optimizer)
                step(model, optimizer)
                run.engine.step()
        # Before the user said so, the second update had ended the first's step.
        assert run.micros == [1, 1, 2, 2, 2]

    def test_a_thread_beside_the_training_ends_none(self, tmp_path: Path) -> None:
        model, optimizer = trained()
        with watched(tmp_path, model) as run:
            step(model, optimizer)
            with run.engine.phase("eval"):
                model(torch.randn(4, 8))
            ended: list[threading.Thread] = []

            def end_beside(_gradient: Any) -> None:
                ended.append(threading.Thread(target=run.engine.step))
                ended[0].start()
                ended[0].join()

            optimizer.zero_grad()
            loss = model(torch.randn(4, 8)).sum()
            loss.register_hook(end_beside)
            loss.backward()
            optimizer.step()
        assert run.steps == 2


class TestUserPhases:
    def test_the_innermost_name_wins_and_nothing_splits_it(self, tmp_path: Path) -> None:
        model, optimizer = trained()
        with watched(tmp_path, model) as run, run.engine.phase("outer"):
            step(model, optimizer)
            with run.engine.phase("eval"), run.engine.phase("eval"):
                step(model, optimizer)
            step(model, optimizer)
        assert run.sequence() == ["startup", "outer", "eval", "eval", "eval", "outer", "other"]
        assert run.counts["eval"] == 1
        assert run.steps == 3 and run.micros == [1, 1, 1]

    def test_left_out_of_order(self, tmp_path: Path) -> None:
        with watched(tmp_path) as run:
            first, second = run.engine.phase("a"), run.engine.phase("b")
            first.__enter__()
            second.__enter__()
            first.__exit__(None, None, None)
            second.__exit__(None, None, None)
        assert run.sequence() == ["startup", "a", "b", "b", "other"]

    def test_the_phase_before_resumes(self, tmp_path: Path) -> None:
        class Inner(torch.nn.Linear):
            def forward(self, x: Any) -> Any:
                with run.engine.phase("attention"):
                    return super().forward(x)

        model = Inner(8, 2)
        with watched(tmp_path, model) as run:
            model(torch.randn(4, 8)).sum().backward()
        assert run.sequence() == [
            "startup",
            "forward",
            "attention",
            "forward",
            "tail",
            "backward",
            "other",
        ]
        assert run.counts["forward"] == 1

    def test_exceptions_pass(self, tmp_path: Path) -> None:
        with pytest.raises(KeyError, match="mine"), watched(tmp_path, failed=True) as run:
            with run.engine.phase("a"):
                raise KeyError("mine")
        assert run.sequence() == ["startup", "a", "other"]
        end = run.rows[run.rows["kind"] == Record.END]
        assert end["code"].tolist() == [EndCode.FAILED]

    def test_other_threads_have_a_ring_and_give_it_back(self, tmp_path: Path) -> None:
        def work() -> None:
            with run.engine.phase("upload"), run.engine.phase("compress"):
                pass

        with watched(tmp_path) as run:
            for _ in range(2):
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
        assert run.sequence() == ["startup"]
        (rows,) = run.others
        assert rows["kind"].tolist() == ([Record.MARK] * 3 + [Record.LEAVE]) * 2

    def test_a_thread_without_a_ring_is_counted(self, tmp_path: Path) -> None:
        def opened(label: str, capacity: int) -> RingWriter:
            if label != "main":
                raise StoreError("no space left")
            return RingWriter(tmp_path / "main.ring", capacity=capacity)

        engine = PhaseEngine(opened)
        engine.install()

        def work() -> None:
            with engine.phase("upload"):
                pass

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        engine.uninstall()
        engine.end(False, 0)
        assert engine._thread_rings.dropped == 2
        assert not engine.warnings


class TestThreads:
    def test_the_thread_that_trains_is_recorded(self, tmp_path: Path) -> None:
        model, optimizer = trained()

        def work() -> None:
            for _ in torch.utils.data.DataLoader(range(4)):
                step(model, optimizer)

        with watched(tmp_path, model) as run:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert run.steps == 4 and run.counts["data"] == run.counts["forward"] == 4

    def test_loaders_in_other_threads_are_not_ours(self, tmp_path: Path) -> None:
        """As of a thread that fetches ahead of the one that trains."""
        model, optimizer = trained()
        fetched: queue.Queue[Any] = queue.Queue(maxsize=2)

        def fetch() -> None:
            for x in torch.utils.data.DataLoader(torch.randn(8, 8)):
                fetched.put(x)

        with watched(tmp_path, model) as run:
            model(torch.randn(1, 8)).sum().backward()
            thread = threading.Thread(target=fetch)
            thread.start()
            for _ in range(8):
                model(fetched.get()).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            thread.join()
        assert run.steps == 8 and run.counts["forward"] == 9
        assert "data" not in run.counts

    def test_the_autograd_engines_thread_has_a_ring(self, tmp_path: Path) -> None:
        """As on CUDA: backward waits in the main thread while another one recomputes."""
        import _thread  # a thread that threading does not know, like one of C++

        with watched(tmp_path) as run:
            machine = run.engine._machine
            token = machine.backward_begin()
            done = threading.Event()

            def native() -> None:
                lane = machine.recompute_begin()
                inside = machine.communication_begin()
                machine.communication_end(inside)
                nested = machine.backward_begin()
                machine.backward_end(nested, True)
                machine.recompute_end(lane)
                done.set()

            _thread.start_new_thread(native, ())
            assert done.wait(processes.HUNG_S)
            pythonic: list[Any] = []
            thread = threading.Thread(target=lambda: pythonic.append(machine.communication_begin()))
            thread.start()
            thread.join()
            machine.backward_end(token, True)
        assert pythonic == [None]
        assert len(run.others) == 1
        codes = run.others[0]["code"].tolist()
        r, c, b = Code.RECOMPUTE, Code.COMMUNICATION, Code.BACKWARD
        assert codes == [r, c, r, b, r, r]
        assert run.counts == {"backward": 1, "communication": 1, "other": 1, "recompute": 3} | {
            "startup": 1
        }

    def test_the_engines_thread_tells_that_gradients_are_computed(self, tmp_path: Path) -> None:
        """As DDP on CUDA; what another thread of the user's trains is not ours."""
        import _thread

        with watched(tmp_path) as run:
            machine = run.engine._machine
            machine.computed()  # no backward
            token = machine.backward_begin()
            thread = threading.Thread(target=machine.computed)
            thread.start()
            thread.join()
            assert machine.base() == Code.BACKWARD
            done = threading.Event()

            def native() -> None:
                threading.current_thread()  # as logging does: threading knows it now
                machine.computed()
                done.set()

            _thread.start_new_thread(native, ())
            assert done.wait(processes.HUNG_S)
            assert machine.base() == Code.COMMUNICATION
            machine.backward_end(token, True)
        assert run.sequence() == ["startup", "backward", "communication", "other"]

    def test_an_optimizer_that_steps_in_the_engines_thread(self, tmp_path: Path) -> None:
        import _thread

        _, optimizer = trained()
        with watched(tmp_path) as run:
            machine = run.engine._machine
            for _ in range(2):
                token = machine.backward_begin()
                done = threading.Event()

                def native(done: threading.Event = done) -> None:
                    machine.optimizer_begin(optimizer, False)
                    machine.optimizer_end(optimizer)
                    done.set()

                _thread.start_new_thread(native, ())
                assert done.wait(processes.HUNG_S)
                machine.backward_end(token, True)
        assert run.steps == 2 and run.micros == [1, 1]


class TestPatches:
    @pytest.mark.parametrize("first_out", [0, 1])
    def test_a_second_engine_takes_the_place_of_the_first(
        self, tmp_path: Path, first_out: int
    ) -> None:
        before = torch.autograd._engine_run_backward
        model, optimizer = trained()
        engines = [
            PhaseEngine(
                lambda _label, capacity, path=tmp_path / f"{i}.ring": RingWriter(
                    path, capacity=capacity
                ),
                model=model,
            )
            for i in range(2)
        ]
        for engine in engines:
            engine.install()
            step(model, optimizer)
        for i in (first_out, 1 - first_out):
            engines[i].uninstall()
            engines[i].end(False, 0)
            step(model, optimizer)
        assert [engine.steps for engine in engines] == [1, 1 + (first_out == 0)]
        assert not engines[0].warnings and not engines[1].warnings
        assert torch.autograd._engine_run_backward is before
        assert type(model).__call__ is torch.nn.Module.__call__

    def test_a_patch_on_top_of_ours_stays(self, tmp_path: Path) -> None:
        original = torch.autograd._engine_run_backward
        model, optimizer = trained()
        calls = []
        try:
            with watched(tmp_path, model):
                ours = torch.autograd._engine_run_backward

                def theirs(*args: Any, **kwargs: Any) -> Any:
                    calls.append(1)
                    return ours(*args, **kwargs)

                torch.autograd._engine_run_backward = theirs
            assert torch.autograd._engine_run_backward is theirs
            with watched(tmp_path, model) as run:  # a new layer, the old one passes through
                step(model, optimizer)
            assert torch.autograd._engine_run_backward is theirs
            assert run.micros == [1] and calls == [1]
            step(model, optimizer)
        finally:
            torch.autograd._engine_run_backward = original

    def test_the_rules_of_dynamo_do_not_grow(self, tmp_path: Path) -> None:
        import torch._dynamo.trace_rules as rules

        lines = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            with watched(tmp_path / name):
                lines.append(len(rules.SKIP_DIRS))
        assert lines[0] == lines[1]

    def test_an_internal_failure_is_one_warning(self, tmp_path: Path) -> None:
        model, optimizer = trained()
        engine = PhaseEngine(lambda _l, c: RingWriter(tmp_path / "m.ring", capacity=c), model=model)
        engine.install()
        step(model, optimizer)

        def broken() -> bool:
            raise RuntimeError("ours")

        engine._machine.grad_enabled = broken
        for _ in range(3):
            step(model, optimizer)
        with engine.phase("eval"):
            engine.values.log({"x": 1})
        engine.uninstall()
        engine.end(False, 0)
        assert engine.warnings == ["phases are no longer recorded: RuntimeError: ours"]
        assert registry._session is None and type(model).__call__ is torch.nn.Module.__call__


def test_other_threads_log_too(tmp_path: Path) -> None:
    model, optimizer = trained()
    with watched(tmp_path, model) as run:
        step(model, optimizer)

        def evaluate() -> None:
            for number in range(100):
                run.engine.values.log({"accuracy": torch.tensor(number / 100), "name": "best"})

        thread = threading.Thread(target=evaluate)
        thread.start()
        thread.join()
        run.engine.values.log({"accuracy": 1.0})
    code = run.engine.ring.code("accuracy")
    rows = run.rows[(run.rows["kind"] == Record.VALUE) & (run.rows["code"] == code)]
    rows = np.sort(rows, order="time_ns")
    logged = rows["payload"].astype("<i8").view("<f8")
    assert logged == pytest.approx([number / 100 for number in range(101)])
    assert run.engine.warnings == ["log(name=…) ignored: str is not one number"]


class TestProcesses:
    def test_a_forked_child_writes_nothing(self, tmp_path: Path) -> None:
        model, optimizer = trained()
        with watched(tmp_path, model) as run:
            step(model, optimizer)
            edges = run.engine.ring.offered()
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    with run.engine.phase("child"):
                        run.engine.values.log({"x": 1.0})
                        model(torch.zeros(1, 8))
                    run.engine.uninstall()
                    run.engine.end(False, 0)
                    code = int(run.engine.ring.offered() != edges)
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            step(model, optimizer)
        assert run.steps == 2 and "child" not in run.counts
        assert np.count_nonzero(run.rows["kind"] == Record.END) == 1

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_loader_workers(self, tmp_path: Path, method: str) -> None:
        model, optimizer = trained()
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.randn(8, 8)),
            batch_size=4,
            num_workers=1,
            multiprocessing_context=multiprocessing.get_context(method),
        )
        with watched(tmp_path, model) as run:
            for (x,) in loader:
                model(x).sum().backward()
                optimizer.step()
        assert run.steps == 2 and run.counts["data"] == 2

    def test_torch_imported_later_and_never(self) -> None:
        script = """
import sys, tempfile, pathlib
from probe.instrument import PhaseEngine
from probe.ring.writer import RingWriter
folder = pathlib.Path(tempfile.mkdtemp())
finders = list(sys.meta_path)
engine = PhaseEngine(lambda label, n: RingWriter(folder / f"{label}.ring", capacity=n))
engine.install()
assert "torch" not in sys.modules and "numpy" not in sys.modules
with engine.phase("eval"):
    engine.values.log({"accuracy": 0.5, "n": 3})
if sys.argv[1] == "later":
    import torch
    assert not type(torch.__spec__.loader).__module__.startswith("probe")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward(); optimizer.step(); optimizer.zero_grad()
    assert engine.steps == 2, engine.steps
    assert engine.model_found == "found by its parameters: Linear", engine.model_found
engine.uninstall()
engine.end(False, 0)
assert not any(type(f).__module__.startswith("probe") for f in sys.meta_path)
assert not engine.warnings, engine.warnings
print(engine.steps)
"""
        for when, steps in (("never", "0"), ("later", "3")):
            done = subprocess.run(
                [sys.executable, "-c", script, when],
                capture_output=True,
                text=True,
                check=False,
                cwd=Path(__file__).parents[4],
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip() == steps


class TestLog:
    def test_numbers_and_tensors(self, tmp_path: Path) -> None:
        with watched(tmp_path) as run:
            run.engine.values.log(
                {
                    "a": 1,
                    "b": 0.5,
                    "c": True,
                    "d": torch.tensor(0.25),
                    "e": torch.tensor([2.0]),
                    "f": torch.tensor(1.5, dtype=torch.bfloat16),
                    "g": np.float32(0.125),
                    "h": torch.tensor(3, dtype=torch.int64),
                    "i": np.array(4.0),
                    "j": torch.tensor(float("nan")),
                    "k": torch.tensor(0.5, dtype=torch.float16),
                }
            )
        assert [run.values(n)[0] for n in "abcdefghik"] == [
            1,
            0.5,
            1,
            0.25,
            2,
            1.5,
            0.125,
            3,
            4,
            0.5,
        ]
        assert run.values("j")[0] != run.values("j")[0]
        assert not run.engine.warnings

    def test_a_loss_with_a_graph_is_not_kept_alive(self, tmp_path: Path) -> None:
        import weakref

        model, _ = trained()
        with watched(tmp_path, model) as run:
            loss = model(torch.ones(1, 8)).sum()
            version, gone = loss._version, weakref.ref(loss)
            run.engine.values.log({"loss": loss})
            assert loss._version == version
            loss.backward()
            del loss
            assert gone() is None

    @pytest.mark.parametrize(
        "value",
        [
            "text",
            None,
            torch.ones(2),
            torch.tensor(1j),
            torch.ones(()).to_sparse(),
            torch.empty((), device="meta"),
            [1],
            10**400,
        ],
        ids=["text", "none", "vector", "complex", "sparse", "meta", "list", "huge"],
    )
    def test_anything_else_is_one_warning(self, tmp_path: Path, value: Any) -> None:
        with watched(tmp_path) as run:
            for _ in range(3):
                run.engine.values.log({"x": value, "y": 1.0})
        assert len(run.engine.warnings) == 1 and "log(x=" in run.engine.warnings[0]
        assert run.values("y") == [1.0] * 3


class TestBoundaries:
    def test_a_step_begins_with_the_signal_that_closed_the_one_before(self, tmp_path: Path) -> None:
        model, optimizer = trained()
        closed: list[int] = []
        engine: PhaseEngine
        ring = tmp_path / "m.ring"
        engine = PhaseEngine(
            lambda _l, c: RingWriter(ring, capacity=c),
            model=model,
            chores=lambda: closed.append(engine.steps),
        )
        engine.install()
        for _ in range(3):
            step(model, optimizer)
        assert closed == [1, 2]
        engine.uninstall()
        engine.end(False, 0)
        assert closed == [1, 2, 3]

    def test_a_callback_that_raises_is_dropped(self, tmp_path: Path) -> None:
        model, optimizer = trained()

        def broken() -> None:
            raise ValueError("theirs")

        engine = PhaseEngine(
            lambda _l, c: RingWriter(tmp_path / "m.ring", capacity=c), model=model, chores=broken
        )
        engine.install()
        for _ in range(3):
            step(model, optimizer)
        engine.uninstall()
        engine.end(False, 0)
        assert engine.steps == 3 and engine.warnings == ["chores: ValueError: theirs"]

    def test_overhead_is_told_once_there_are_steps(self, tmp_path: Path) -> None:
        model, optimizer = trained()
        with watched(tmp_path, model) as run:
            assert run.engine.overhead().share_of_step is None
            for _ in range(50):
                step(model, optimizer)
        overhead = run.engine.overhead()
        assert overhead.share_of_step is not None
        assert 0 < overhead.share_of_step < 1 and overhead.method

    def test_a_model_that_is_none(self, tmp_path: Path) -> None:
        with watched(tmp_path, model=lambda x: x) as run:
            model, optimizer = trained()
            step(model, optimizer)
            step(model, optimizer)
        assert run.steps == 2
        assert any("no torch module" in line for line in run.engine.warnings)

    def test_hash_ignores_wrappers_and_order(self) -> None:
        from probe.instrument.root_module.living_modules import parameters_hash

        model = torch.nn.Sequential(torch.nn.Linear(2, 3))
        assert parameters_hash(model) == parameters_hash(torch.compile(model))
        assert parameters_hash(model) != parameters_hash(torch.nn.Sequential(torch.nn.Linear(3, 2)))


class TestDevice:
    def test_device_times_and_memory_of_a_simulated_device(self, tmp_path: Path) -> None:
        from probe.instrument.cuda_memory import CudaMemory
        from probe.instrument.device_clock.events import EventClock
        from tests.fakes.device_clocks import SimulatedDevice, SimulatedTime

        model, optimizer = trained()
        with watched(tmp_path, model) as run:
            clock_time = SimulatedTime()
            device = SimulatedDevice(clock_time)
            engine, machine = run.engine, run.engine._machine
            engine._cuda = object()
            engine._memory = CudaMemory(
                lambda: {
                    "allocated_bytes": {"all": {"current": 512, "peak": 1024}},
                    "reserved_bytes": {"all": {"current": 2048}},
                },
                engine.ring,
            )
            engine._device = EventClock(device, now=clock_time.now_ns)
            engine._busy = True
            machine.enrich(engine._memory.allocated, engine._device)
            for _ in range(4):
                step(model, optimizer)
                device.synchronize()
                clock_time.advance(1_000_000)
        kinds = run.rows["kind"]
        marks = run.rows[kinds == Record.MARK]
        assert set(marks["payload"][1:].tolist()) == {512}
        edges = run.rows[kinds == Record.DEVICE]
        assert set(edges["time_ns"].tolist()) <= set(marks["time_ns"].tolist())
        assert len(edges) >= 4 * 4
        memory = run.rows[kinds == Record.MEMORY]
        by_name = {run.names[int(r["code"])]: int(r["payload"]) for r in memory}
        assert by_name == {
            "allocated": 512,
            "reserved": 2048,
            "peak": 1024,
            "reserved in phase": 2048,
        }
