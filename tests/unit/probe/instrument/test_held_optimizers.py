"""Optimizers made before anybody listened are found where programs have them; nothing is kept."""

from __future__ import annotations

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
    made = optimizer()
    held, refuses = around(made), Refuses()
    found = (lambda: held_optimizers())()
    assert [o for o in found if o is made] == [made]
    assert held and refuses


def test_what_a_function_lets_go_of_is_not_kept() -> None:
    made, tensor = optimizer(), torch.ones(3)
    gone = weakref.ref(tensor)
    assert made in held_optimizers()
    del tensor
    assert gone() is None


def test_a_look_is_bounded() -> None:
    many, made = [Holder(None) for _ in range(100_000)], optimizer()
    assert made in held_optimizers()
    assert len(many) == 100_000
