"""Compiled models: the same steps, no graph break, no compilation anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import probe  # noqa: E402
from tests.fakes.phase_recording import watched  # noqa: E402
from tests.fakes.training_loop import (  # noqa: E402
    BACKEND,
    LOSS,
    N,
    Net,
    breaks,
    expect,
    loader,
    process_group,
    train,
)


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

    def test_compilers_are_start_up_and_every_step_keeps_its_phases(self, tmp_path: Path) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        compiled = torch.compile(model, backend=BACKEND)
        with watched(tmp_path) as run:
            train(compiled, optimizer)
        expect(run)
        assert run.counts["forward"] == N and run.counts["startup/compile"] >= 1
        assert run.seconds("startup/compile") > run.seconds("forward")

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
        expect(run)
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
        expect(run)

    def test_with_hooks_of_the_users(self, tmp_path: Path) -> None:
        """Dynamo goes through what we put on the class then."""
        model = Net()
        calls = []
        model.register_forward_pre_hook(lambda *_: calls.append(1))
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model) as run:
            outer = nn.Sequential(model, nn.ReLU())
            train(torch.compile(outer, fullgraph=True, backend=BACKEND), optimizer)
        assert breaks() == 0 and len(calls) == N
        assert run.steps == N and run.micros == [1] * N

    def test_a_step_that_is_one_compiled_function_says_that_no_forward_was_seen(
        self, tmp_path: Path
    ) -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @torch.compile(backend=BACKEND)
        def step(x: Any, y: Any) -> None:
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()

        batches = list(loader(batches=12))  # after a batch of a loader a forward is inferred
        with probe.watch(dir=str(tmp_path)) as run:
            for x, y in batches:
                step(x, y)
        report = run.report().to_dict()
        assert report["run"]["steps"] == 12
        assert "forward" not in {row["phase"] for row in report["phases"]}
        said = "no forward was seen, so its time is in `other`"
        assert any(line.startswith(said) for line in report["warnings"])

    def test_an_optimizer_that_steps_in_a_compiled_function_is_said(self, tmp_path: Path) -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @torch.compile(backend=BACKEND)
        def step() -> None:
            optimizer.step()

        with probe.watch(dir=str(tmp_path)) as run:
            for x, y in list(loader(batches=12)):
                LOSS(model(x), y).backward()
                step()
                optimizer.zero_grad()
        report = run.report().to_dict()
        assert report["run"]["steps"] == 12
        assert any("time of the optimizer, compiled or" in line for line in report["warnings"])

    def test_user_phase_and_collective_inside_a_graph(self, tmp_path: Path) -> None:
        with process_group(tmp_path), watched(tmp_path):

            @torch.compile(fullgraph=True, backend=BACKEND)
            def reduced(x: Any) -> Any:
                y = x * 2
                dist.all_reduce(y)
                return y + 1

            assert reduced(torch.ones(3)).tolist() == [3.0, 3.0, 3.0]
        assert breaks() == 0
