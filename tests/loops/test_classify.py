"""``watch(classify=True)`` over every loop: nothing of the user's runs twice, nothing changes."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._dynamo import convert_frame  # noqa: E402

from probe.instrument.patches import dynamo  # noqa: E402
from tests.fakes.phase_recording import Watched, watched  # noqa: E402
from tests.fakes.selection import one_in  # noqa: E402
from tests.loops import archetypes  # noqa: E402
from tests.loops.archetypes import LOOPS  # noqa: E402
from tests.loops.truth import Truth  # noqa: E402

PHASES = {"forward", "backward", "optimizer"}
BUDGET_S = 2.0


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a process of its own, on a machine whose rates are not known yet."""
    monkeypatch.setattr(dynamo, "_traces", False)
    monkeypatch.setattr(convert_frame, "FRAME_COUNTER", 0)
    monkeypatch.setenv("PROBE_CALIBRATION", str(tmp_path / "ridge"))


class Recorded:
    """What a loop leaves behind: every state that it can have changed."""

    def __init__(self, name: str, folder: Path, *, classify: bool):
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        self.run: Watched
        made: list[Any] = []
        with Truth() as truth, pytest.MonkeyPatch.context() as patches:
            # Each model and optimizer that the loop makes, whether it passes it on or not.
            for kind in (torch.nn.Module, torch.optim.Optimizer):
                patches.setattr(kind, "__init__", _noting(kind.__init__, made))
            loop = LOOPS[name](truth)
            next(loop)
            with watched(folder, classify=classify) as self.run:
                next(loop, None)
        self.truth = truth.counts()
        self.random = (
            random.getstate(),
            [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()],
            torch.get_rng_state().tolist(),
        )
        self.states = [_state(each) for each in made]
        self.plain = [_plain(each) for each in made]
        made.clear()
        gc.collect()


def _noting(original: Any, made: list[Any]) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        made.append(self)
        original(self, *args, **kwargs)

    return __init__


def _state(made: Any) -> list[Any]:
    if isinstance(made, torch.nn.Module):
        tensors = [*made.parameters(), *made.buffers()]
        return [(t.detach().clone(), t._version, _gradient(t)) for t in tensors]
    return [
        (key, value.clone() if isinstance(value, torch.Tensor) else value)
        for state in made.state.values()
        for key, value in state.items()
        if isinstance(value, torch.Tensor | int | float)
    ]


def _gradient(tensor: Any) -> Any:
    return None if tensor.grad is None else tensor.grad.clone()


def _plain(made: Any) -> dict[str, Any]:
    """Counters and flags of the user's own."""
    return {
        key: value
        for key, value in vars(made).items()
        if isinstance(value, bool | int | float | str) and not key.startswith("__")
    }


def same(first: Any, other: Any) -> bool:
    """Bit for bit; NaN is NaN."""
    if isinstance(first, torch.Tensor) and isinstance(other, torch.Tensor):
        return first.shape == other.shape and bool(
            torch.equal(first, other)
            or torch.allclose(first, other, rtol=0, atol=0, equal_nan=True)
        )
    if isinstance(first, list | tuple) and isinstance(other, list | tuple):
        return len(first) == len(other) and all(map(same, first, other))
    return bool(first == other)


@pytest.mark.parametrize("name", one_in(6, LOOPS, always=["gan", "optimizer_in_backward"]))
def test_a_classified_loop_is_bit_for_bit_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archetypes, "wait", lambda *_: None)
    plain = Recorded(name, tmp_path, classify=False)
    classified = Recorded(name, tmp_path, classify=True)
    assert same(plain.random, classified.random), "a generator was drawn from"
    assert len(plain.states) == len(classified.states)
    for plain_state, other in zip(plain.states, classified.states, strict=True):
        assert same(plain_state, other)
    assert plain.plain == classified.plain, "a counter of the user's was counted twice"
    assert plain.truth.steps == classified.truth.steps
    assert plain.truth.count == classified.truth.count, "something ran twice"
    counts = {k: n for k, n in classified.run.counts.items() if k not in ("startup", "other")}
    assert counts == {k: n for k, n in plain.run.counts.items() if k not in ("startup", "other")}, (
        "a phase is seen that was not there"
    )
    roofline = classified.run.engine.step_roofline
    notes = [line for line in classified.run.engine.all_warnings() if "classify" in line]
    # Counted, or one line that says why not.
    assert (roofline is not None) != (len(notes) == 1), (roofline, notes)
    if roofline is not None:
        assert set(roofline.memory_bound) <= PHASES and "forward" in roofline.memory_bound
        assert all(0 <= share <= 1 for share in roofline.memory_bound.values())
