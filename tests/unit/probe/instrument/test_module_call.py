"""Calls of one module are heard, those of others are not, and classes are left as they were."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402
from torch._dynamo import convert_frame, eval_frame, symbolic_convert  # noqa: E402

from probe.instrument.patches import dynamo, module_call  # noqa: E402
from probe.instrument.patches.module_call import Listening  # noqa: E402
from probe.instrument.patches.wrappers import (  # noqa: E402
    FLAG,
    CallWrapper,
    HookTarget,
    Listener,
    RootListener,
    around_backward,
)
from tests.fakes import processes  # noqa: E402
from tests.uncompiled_plugin import ROOT  # noqa: E402

ORIGINAL = nn.Module.__call__


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.fails = False

    def forward(self, x: Any, *, scale: float = 1.0) -> Any:
        if self.fails:
            raise ValueError("of the user's")
        return self.layer(x) * scale


class Heard(Listener):
    def __init__(self) -> None:
        self.log: list[Any] = []

    def begin(self, args: Any) -> None:
        self.log.append(("begin", len(args)))

    def end(self, output: Any) -> None:
        self.log.append(("end", None if output is None else tuple(output.shape)))


CALL = [("begin", 2), ("end", (1, 2))]  # with the module itself
X = torch.ones(1, 2)


@pytest.fixture(autouse=True)
def classes_are_left_as_they_were() -> Any:
    yield
    assert Net.__call__ is nn.Linear.__call__ is nn.Module.__call__ is ORIGINAL
    assert "__call__" not in vars(Net)


@pytest.fixture
def untraced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As in a process in which dynamo has traced nothing yet."""
    torch._dynamo.reset()
    monkeypatch.setattr(convert_frame, "FRAME_COUNTER", 0)
    monkeypatch.setattr(dynamo, "_traces", False)


@pytest.fixture(params=[False, True], ids=["compiled", "visible"])
def visible(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, untraced: None) -> Any:
    """Before dynamo traces, and after."""
    monkeypatch.setattr(dynamo, "_traces", request.param)


def test_only_the_module_that_is_listened_to() -> None:
    net, other, listener = Net(), Net(), Heard()
    listening = Listening(net, listener)
    other(X)
    assert listener.log == []
    assert torch.equal(net(X, scale=2.0), 2 * net.forward(X))
    assert listener.log == CALL
    listening.remove()
    net(X)
    assert listener.log == CALL
    listening.remove()  # again: nothing


def test_one_of_a_class_then_several_then_another_one() -> None:
    nets, listeners = [Net() for _ in range(3)], [Heard() for _ in range(3)]
    listening = []
    for number, (net, listener) in enumerate(zip(nets, listeners, strict=True)):
        listening.append(Listening(net, listener))
        for called in nets:
            called(X)
        assert [len(log.log) // 2 for log in listeners] == [
            max(0, number + 1 - i) for i in range(len(nets))
        ]
    listening[0].remove()
    listening[2].remove()
    for called in nets:
        called(X)
    assert [len(listener.log) // 2 for listener in listeners] == [3, 3, 1]
    listening[1].remove()


class Machine:
    """Stands in for the state machine: logs calls of roots; none may begin inside another."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.open = False

    def forward_begin(self, root: int, module: Any) -> None:
        assert id(module) == root
        self.open = True
        self.log.append(("begin", root))

    def forward_end(self, root: int) -> None:
        self.open = False
        self.log.append(("end", root))

    def may_be_root(self) -> bool:
        return not self.open


def test_another_module_of_a_roots_class_is_heard_when_it_is_called() -> None:
    machine, root, copied, kind = Machine(), Net(), Net(), Heard()
    others: list[Any] = []

    def hear(module: Any) -> Any:
        listener = RootListener(machine, id(module), hear)  # type: ignore[arg-type]
        others.append(Listening(module, listener))
        return listener

    of_kind = Listening(root, kind)
    of_root = Listening(root, RootListener(machine, id(root), hear))  # type: ignore[arg-type]
    root(X)
    copied(X)
    copied(X)
    both = [("begin", id(copied)), ("end", id(copied))]
    assert machine.log == [("begin", id(root)), ("end", id(root)), *both, *both]
    assert len(others) == 1 and len(kind.log) == 2
    machine.open = True  # inside a root's call
    Net()(X)
    assert len(others) == 1
    machine.open = False
    of_root.remove()
    others.pop().remove()
    Net()(X)  # no root is left of the class
    assert not others
    of_kind.remove()


def test_what_raises_ends_too() -> None:
    net, listener = Net(), Heard()
    listening = Listening(net, listener)
    net.fails = True
    with pytest.raises(ValueError, match="of the user's"):
        net(X)
    listening.remove()
    assert listener.log == [("begin", 2), ("end", None)]


@pytest.mark.parametrize("first_out", [0, 1, 2])
def test_several_of_one_module(first_out: int) -> None:
    net, listeners = Net(), [Heard() for _ in range(3)]
    listening = [Listening(net, each) for each in listeners]
    net(X)
    listening[first_out].remove()
    net(X)
    for each in listening:
        each.remove()
    net(X)
    assert [len(each.log) // 2 for each in listeners] == [
        1 if i == first_out else 2 for i in range(3)
    ]


def test_copies_of_any_kind_are_not_heard() -> None:
    net, listener = Net(), Heard()
    listening = Listening(net, listener)
    by_hand = Net.__new__(Net)
    by_hand.__dict__ = net.__dict__.copy()  # as DataParallel and others make their replicas
    by_hand._modules = {"layer": nn.Linear(2, 2)}
    for twin in (
        copy.copy(net),
        copy.deepcopy(net),
        pickle.loads(pickle.dumps(net)),
        by_hand,
        net._replicate_for_data_parallel(),
    ):
        assert torch.equal(twin(X), twin.layer(X))
    assert listener.log == []
    assert b"phases.calls" not in pickle.dumps(net)
    listening.remove()


def test_a_class_pickled_by_value_takes_nothing_of_ours_along(visible: None) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")  # of Ray, of MLflow's models

    class Local(nn.Module):  # cannot be named by who reads it
        def forward(self, x: Any) -> Any:
            return x * 2

    class Own(Local):
        def __call__(self, x: Any) -> Any:
            return super().__call__(x) + 1

    for kind in (Local, Own):
        net, listener = kind(), Heard()
        listening = Listening(net, listener)
        pickled = cloudpickle.dumps((net, X))
        listening.remove()
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "import pickle, sys; net, x = pickle.load(sys.stdin.buffer); "
                "print(net(x).tolist()); "
                "assert not any(n.startswith('probe') for n in sys.modules)",
            ],
            input=pickled,
            capture_output=True,
            check=True,
            cwd=ROOT,
        )
        assert done.stdout.decode().strip() == str(net(X).tolist())
        assert listener.log == []


def test_a_module_that_dies_is_not_heard_under_its_id() -> None:
    net, listener = Net(), Heard()
    listening = Listening(net, listener)
    del net  # by its last reference, not by the garbage collector: its memory may be wanted
    assert listening.module() is None
    gc.collect()
    for _ in range(8):
        Net()(X)
    other, of_other = Net(), Heard()
    listening_to_other = Listening(other, of_other)
    listening.remove()
    other(X)
    listening_to_other.remove()
    assert listener.log == [] and of_other.log == CALL


def test_who_patched_on_top_stays() -> None:
    net, listener = Net(), Heard()
    listening = Listening(net, listener)
    ours, theirs = Net.__call__, []

    def patched(self: Any, *args: Any) -> Any:
        theirs.append(1)
        return ours(self, *args)

    Net.__call__ = patched
    try:
        net(X)
        listening.remove()
        assert Net.__call__ is patched
        again = Listening(net, listener)
        net(X)
        again.remove()
        assert Net.__call__ is patched and len(theirs) == 2 and listener.log == CALL * 2
    finally:
        del Net.__call__


def test_a_class_with_a_call_of_its_own_and_one_below_it() -> None:
    class Own(Net):
        def __call__(self, x: Any) -> Any:
            return super().__call__(x) + 1

    class Below(Own):
        pass

    for kind in (Own, Below):
        net, other, listener, base = kind(), Own(), Heard(), Heard()
        of_base = Listening(other, base)
        listening = Listening(net, listener)
        assert torch.equal(net(X), net.forward(X) + 1)
        of_base.remove()
        assert torch.equal(net(X), net.forward(X) + 1)
        listening.remove()
        assert listener.log == CALL * 2 and base.log == []
        assert "__call__" in vars(Own) and "__call__" not in vars(Below)


def test_tracers_that_replace_the_call_of_all_modules_see_it() -> None:
    net, listener = nn.Sequential(nn.Sequential(Net()), nn.ReLU()), Heard()

    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, _module: Any, name: str) -> bool:
            return name in ("0", "1")  # the first is of the class that is listened to

    listening = Listening(net, listener)
    graph = Tracer().trace(net)
    assert [str(node.target) for node in graph.nodes if node.op == "call_module"] == ["0", "1"]
    listening.remove()


def test_a_class_that_lets_nothing_be_set() -> None:
    class Sealed(type):
        def __setattr__(cls, name: str, value: Any) -> None:
            raise TypeError(f"sealed: {name}")

    class Closed(nn.Module, metaclass=Sealed):
        def forward(self, x: Any) -> Any:
            return x

    net = Closed()
    with pytest.raises(TypeError, match="sealed: __call__"):
        Listening(net, Heard())
    assert net(X) is X


@pytest.mark.parametrize("before", [False, True])
def test_dynamo_sees_the_original(before: bool, untraced: None) -> None:
    net, listener = Net(), Heard()
    translator = symbolic_convert.InstructionTranslator.__init__
    net.register_forward_hook(lambda *_: None)  # without one dynamo goes to the forward at once
    compiled = torch.compile(lambda x: net(x) * 2, fullgraph=True, backend="eager")
    listening = Listening(net, listener)
    assert isinstance(vars(Net)["__call__"], CallWrapper)
    net(X)
    assert listener.log == CALL
    step = (
        compiled if before else torch.compile(lambda x: net(x) * 2, fullgraph=True, backend="eager")
    )
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(3):
            assert torch.equal(step(X), net.forward(X) * 2)
    assert listener.log == CALL
    assert not isinstance(vars(Net)["__call__"], CallWrapper)
    net(X)
    assert listener.log == CALL * 2
    listening.remove()
    assert symbolic_convert.InstructionTranslator.__init__ is translator


def test_a_training_that_compiles_nothing_stays_compiled(untraced: None) -> None:
    net, listener = Net(), Heard()
    listening = Listening(net, listener)
    optimizer = torch.optim.Adam(net.parameters())  # some of it is disabled in dynamo, by contexts
    for _ in range(2):
        net(X).sum().backward()
        optimizer.step()
    assert isinstance(vars(Net)["__call__"], CallWrapper) and listener.log == CALL * 2
    listening.remove()


def test_what_nobody_traces_leaves_dynamo_as_it_was(untraced: None) -> None:
    beginnings = (symbolic_convert.InstructionTranslator, eval_frame.OptimizeContext)
    before = [vars(kind)["__init__"] for kind in beginnings]
    listening = Listening(Net(), Heard())
    assert [vars(kind)["__init__"] for kind in beginnings] != before
    listening.remove()
    assert [vars(kind)["__init__"] for kind in beginnings] == before


def test_where_frames_were_traced_before_it_is_visible_at_once(
    untraced: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert_frame, "FRAME_COUNTER", 1)
    net, listener = Net(), Heard()
    listening = Listening(net, listener)
    assert not isinstance(vars(Net)["__call__"], CallWrapper)
    net(X)
    listening.remove()
    assert listener.log == CALL


def test_what_cannot_be_made_visible_does_not_raise_into_a_compile(untraced: None) -> None:
    filled = []

    def fill(by: str) -> Any:
        filled.append(by)
        if by == "visible":
            raise TypeError("sealed since")
        return lambda: True

    undo = dynamo.put(fill, "compiled", "visible")
    step = torch.compile(lambda x: x * 2, fullgraph=True, backend="eager")
    assert torch.equal(step(X), 2 * X)
    undo()
    assert filled == ["compiled", "visible"]


def test_who_patched_on_top_before_dynamo_traces_stays(untraced: None) -> None:
    net, listener = Net(), Heard()
    listening = Listening(net, listener)
    ours = Net.__call__

    def patched(self: Any, *args: Any) -> Any:
        return ours(self, *args) + 1

    Net.__call__ = patched
    try:
        step = torch.compile(lambda x: x * 2, fullgraph=True, backend="eager")
        assert torch.equal(step(X), 2 * X) and Net.__call__ is patched
        assert torch.equal(net(X), net.forward(X) + 1)
        listening.remove()
        assert Net.__call__ is patched and listener.log == CALL
    finally:
        del Net.__call__


class Silent:
    """A machine that records no backward."""

    def backward_begin(self, accumulates: bool) -> bool:
        return False


def test_a_backward_of_a_traced_graph_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = HookTarget()
    hooks.machine = Silent()
    run = around_backward(lambda: hooks.traced, hooks)
    assert [run(), run()] == [False, False]
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(torch.compiler, FLAG, True)
            assert [run(), run()] == [True, True]
        assert [run(), run()] == [False, False]


def test_a_module_that_dies_never_waits() -> None:
    """It dies where memory is allocated: in a thread that may hold what the lock's holder needs."""
    nets = [Net()]
    listening = Listening(nets[0], Heard())
    dying = threading.Thread(target=nets.clear)
    with module_call._lock:
        dying.start()
        dying.join(processes.HUNG_S)
        waited = dying.is_alive()
    dying.join()
    assert not waited and listening.module() is None
    listening.remove()  # the next attach removes what a dead listener left
    assert not module_call._dead and not module_call._patched
