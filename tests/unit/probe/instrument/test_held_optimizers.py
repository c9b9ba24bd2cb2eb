"""Optimizers made before anybody listened are found where programs have them; nothing is kept."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from probe.instrument.root_module.held_optimizers import held_optimizers  # noqa: E402


def optimizer() -> Any:
    return torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)


class Holder:
    def __init__(self, held: Any):
        self.held = held


class Refuses:
    """As proxies do that load what they stand for."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


@pytest.mark.parametrize(
    "around",
    [
        lambda made: made,
        lambda made: Holder(made),
        lambda made: Holder(Holder(made)),
        lambda made: [made],
        lambda made: Holder({"generator": made}),
    ],
)
def test_in_variables_attributes_lists(around: Any) -> None:
    made, optimizers = holds(around)
    assert any(o is made for o in optimizers)


# Not in a test: pytest's assertions ask for locals().
def holds(around: Any) -> tuple[Any, list[Any]]:
    made = optimizer()
    held, _refuses = around(made), Refuses()
    return made if held else None, called()


def called() -> list[Any]:
    return held_optimizers()


def lets_go() -> Any:
    made, tensor = optimizer(), torch.ones(3)
    gone = weakref.ref(tensor)
    held = held_optimizers()
    del tensor
    return gone() if made in held else "not found"


def test_what_a_function_lets_go_of_is_not_kept() -> None:
    assert lets_go() is None


def keeps_its_names(rate: float) -> dict[str, Any]:
    config = locals()
    made = optimizer()
    config["found"] = made in held_optimizers()
    return config


def test_what_locals_gave_is_not_changed() -> None:
    assert keeps_its_names(0.1) == {"rate": 0.1, "found": False}


def trains() -> bool:
    made = optimizer()
    return made in held_optimizers()


def test_a_debugger_keeps_its_copy() -> None:
    copies: list[dict[str, Any]] = []

    def trace(frame: Any, _event: str, _argument: Any) -> Any:
        if frame.f_code is trains.__code__:
            copies.append(frame.f_locals)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        optimizers = trains()
    finally:
        sys.settrace(before)
    assert optimizers and "made" in copies[-1]


def among_many() -> bool:
    many, made = [Holder(None) for _ in range(100_000)], optimizer()
    return made in held_optimizers() and len(many) == 100_000


def test_a_look_is_bounded() -> None:
    assert among_many()
