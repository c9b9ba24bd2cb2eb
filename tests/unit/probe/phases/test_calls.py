"""Calls of one module are heard, those of others are not, and classes are left as they were."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402

from probe.phases.around import Listener  # noqa: E402
from probe.phases.calls import Listening  # noqa: E402

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


CALL = [("begin", 1), ("end", (1, 2))]
X = torch.ones(1, 2)


@pytest.fixture(autouse=True)
def classes_are_left_as_they_were() -> Any:
    yield
    assert Net.__call__ is nn.Linear.__call__ is nn.Module.__call__ is ORIGINAL
    assert "__call__" not in vars(Net)


def test_only_the_module_that_is_listened_to() -> None:
    one, other, heard = Net(), Net(), Heard()
    listening = Listening(one, heard)
    other(X)
    assert heard.log == []
    assert torch.equal(one(X, scale=2.0), 2 * one.forward(X))
    assert heard.log == CALL
    listening.remove()
    one(X)
    assert heard.log == CALL
    listening.remove()  # again: nothing


def test_what_raises_ends_too() -> None:
    net, heard = Net(), Heard()
    listening = Listening(net, heard)
    net.fails = True
    with pytest.raises(ValueError, match="of the user's"):
        net(X)
    listening.remove()
    assert heard.log == [("begin", 1), ("end", None)]


@pytest.mark.parametrize("first_out", [0, 1, 2])
def test_several_of_one_module(first_out: int) -> None:
    net, heard = Net(), [Heard() for _ in range(3)]
    listening = [Listening(net, one) for one in heard]
    net(X)
    listening[first_out].remove()
    net(X)
    for one in listening:
        one.remove()
    net(X)
    assert [len(one.log) // 2 for one in heard] == [1 if i == first_out else 2 for i in range(3)]


def test_copies_of_any_kind_are_not_heard() -> None:
    net, heard = Net(), Heard()
    listening = Listening(net, heard)
    by_hand = Net.__new__(Net)
    by_hand.__dict__ = net.__dict__.copy()  # as DataParallel and others make their replicas
    by_hand._modules = {"layer": nn.Linear(2, 2)}
    for twin in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net)), by_hand,
                 net._replicate_for_data_parallel()):
        assert torch.equal(twin(X), twin.layer(X))
    assert heard.log == []
    assert b"phases.calls" not in pickle.dumps(net)
    listening.remove()


def test_a_module_that_dies_is_not_heard_under_its_id() -> None:
    net, heard = Net(), Heard()
    listening = Listening(net, heard)
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
    assert heard.log == [] and of_other.log == CALL


def test_who_patched_on_top_stays() -> None:
    net, heard = Net(), Heard()
    listening = Listening(net, heard)
    ours, theirs = Net.__call__, []

    def patched(self: Any, *args: Any) -> Any:
        theirs.append(1)
        return ours(self, *args)

    Net.__call__ = patched
    try:
        net(X)
        listening.remove()
        assert Net.__call__ is patched
        again = Listening(net, heard)
        net(X)
        again.remove()
        assert Net.__call__ is patched and len(theirs) == 2 and heard.log == CALL * 2
    finally:
        del Net.__call__


def test_a_class_with_a_call_of_its_own_and_one_below_it() -> None:
    class Own(Net):
        def __call__(self, x: Any) -> Any:
            return super().__call__(x) + 1

    class Below(Own):
        pass

    for kind in (Own, Below):
        net, other, heard, base = kind(), Own(), Heard(), Heard()
        of_base = Listening(other, base)
        listening = Listening(net, heard)
        assert torch.equal(net(X), net.forward(X) + 1)
        of_base.remove()
        assert torch.equal(net(X), net.forward(X) + 1)
        listening.remove()
        assert heard.log == CALL * 2 and base.log == []
        assert "__call__" in vars(Own) and "__call__" not in vars(Below)


def test_tracers_that_replace_the_call_of_all_modules_see_it() -> None:
    net, heard = nn.Sequential(nn.Sequential(Net()), nn.ReLU()), Heard()

    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, _module: Any, name: str) -> bool:
            return name in ("0", "1")  # the first is of the class that is listened to

    listening = Listening(net, heard)
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


def test_dynamo_sees_the_original() -> None:
    net, heard = Net(), Heard()
    net.register_forward_hook(lambda *_: None)  # without one dynamo goes to the forward at once
    listening = Listening(net, heard)
    with torch._dynamo.config.patch(error_on_recompile=True):
        step = torch.compile(lambda x: net(x) * 2, fullgraph=True, backend="eager")
        for _ in range(3):
            assert torch.equal(step(X), net.forward(X) * 2)
    assert heard.log == []
    listening.remove()
