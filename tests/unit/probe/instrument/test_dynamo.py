"""Watching changes nothing about what dynamo compiles, whenever it begins."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.phase_recording import watched

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402
from torch._dynamo import convert_frame  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

from probe.instrument.patches import dynamo  # noqa: E402


class Net(nn.Module):
    """Breaks its graph once, on purpose."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.second(x)


def train(how: str, around: Any, begin: str) -> tuple[int, list[str], list[float]]:
    """The number of graphs, reasons of the breaks and losses of a training."""
    torch.manual_seed(0)
    graphs: list[int] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    torch._dynamo.reset()
    counters.clear()
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []

    def compiled() -> Any:
        if how == "in place":
            model.compile(backend=backend)
            return model
        return torch.compile(model, backend=backend)

    call = compiled() if begin == "before" else None
    with around(model):
        call = compiled() if call is None else call
        for turn in range(4):
            if begin == "reset" and turn == 2:
                torch._dynamo.reset()
            loss = call(torch.ones(2, 4)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
    return len(graphs), sorted(counters["graph_break"]), losses


@pytest.mark.parametrize("how", ["torch.compile", "in place"])
@pytest.mark.parametrize("begin", ["before", "inside", "reset"])
def test_graphs_and_breaks_are_the_same(
    how: str, begin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(how, lambda _model: contextlib.nullcontext(), begin)
    torch._dynamo.reset()
    monkeypatch.setattr(convert_frame, "FRAME_COUNTER", 0)
    monkeypatch.setattr(dynamo, "_traces", False)  # as in a process that has traced nothing
    runs = []

    @contextlib.contextmanager
    def around(model: Any) -> Any:
        with watched(tmp_path, model) as run:
            runs.append(run)
            yield

    assert train(how, around, begin) == expected
    assert expected[0] >= 2 and len(expected[1]) == 1
    assert runs[0].steps == 4 and runs[0].counts["backward"] == 4
    # torch.compile keeps the call of before: its wrapper is found after the second backward.
    kept = (how, begin) == ("torch.compile", "before")
    assert runs[0].counts["forward"] >= (2 if kept else 4)
