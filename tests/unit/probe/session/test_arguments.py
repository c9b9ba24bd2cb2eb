"""What people pass to watch(): understood, or refused in one line."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from probe.errors import UsageError
from probe.session.arguments import model_and_optimizer, plain_config
from probe.session.watch import watch


class Model:
    def register_forward_pre_hook(self, hook: object) -> None:
        """Like torch.nn.Module."""


class Optimizer:
    def step(self) -> None:
        """Like torch.optim.Optimizer."""


MODEL, OPTIMIZER = Model(), Optimizer()


@pytest.mark.parametrize(
    ("passed", "meant"),
    [
        ((None, None), (None, None)),
        ((MODEL, None), (MODEL, None)),
        ((MODEL, OPTIMIZER), (MODEL, OPTIMIZER)),
        ((OPTIMIZER, MODEL), (MODEL, OPTIMIZER)),
        ((OPTIMIZER, None), (None, OPTIMIZER)),
        ((None, [OPTIMIZER, OPTIMIZER]), (None, [OPTIMIZER, OPTIMIZER])),
    ],
)
def test_either_order(passed: tuple[Any, Any], meant: tuple[Any, Any]) -> None:
    assert model_and_optimizer(*passed) == meant


@pytest.mark.parametrize(
    ("passed", "line"),
    [
        (("resnet50", None), "model is of type str: pass the torch.nn.Module"),
        ((3, None), "model is of type int"),
        (({"a": 1}, OPTIMIZER), "model is of type dict"),
        ((MODEL, 0.1), "optimizer is of type float"),
        ((MODEL, MODEL), "optimizer is of type Model"),
    ],
)
def test_anything_else_is_named(passed: tuple[Any, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        model_and_optimizer(*passed)


@dataclasses.dataclass
class Settings:
    rate: float = 0.1
    folder: Path = Path("/data")


def cyclic() -> dict[str, Any]:
    config: dict[str, Any] = {"a": [1]}
    config["a"].append(config)
    return config


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("config", "stored"),
    [
        (None, None),
        ({"path": Path("/a"), "names": {"x"}}, {"path": "/a", "names": ["x"]}),
        ({3: (1, None)}, {"3": [1, None]}),
        ({("a", 1): True}, {"('a', 1)": True}),
        ({"nan": float("nan"), "inf": float("inf")}, {"nan": "nan", "inf": "inf"}),
        (Settings(), {"rate": 0.1, "folder": "/data"}),
        (argparse.Namespace(lr=1.0, tags=["a"]), {"lr": 1.0, "tags": ["a"]}),
        ([1, 2], {"config": [1, 2]}),
        ("a.yaml", {"config": "a.yaml"}),
        (cyclic(), {"a": [1, "…"]}),
        ({"x": Broken()}, {"x": "<Broken>"}),
    ],
)  # fmt: skip
def test_a_config_may_be_anything(config: object, stored: object) -> None:
    assert plain_config(config) == stored
    json.dumps(stored, allow_nan=False)


def test_a_config_may_be_deep() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    json.dumps(plain_config({"deep": deep}))


def test_what_is_no_text_becomes_text() -> None:
    options = watch(name=5, devices=0, data=7)._options  # type: ignore[arg-type]
    assert (options.name, options.devices, options.data) == ("5", "0", "7")
    assert watch(name=0)._options.name == "0"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["dir", "resume", "country", "target"])
def test_what_can_be_no_text_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}='?5'?"):
        watch(**{name: 5})  # type: ignore[arg-type]
