"""Models stay what they were: copied, saved, exported; results are equal to the last bit."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from tests.fakes.phase_recording import watched  # noqa: E402
from tests.fakes.training_loop import BACKEND, Net, breaks, expect, loader, train  # noqa: E402


class TestModelStaysUsable:
    def test_ema_deepcopy(self, tmp_path: Path) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model) as run:
            average = copy.deepcopy(model)
            train(model, optimizer)
            x, _ = next(iter(loader()))
            average(x)
            torch.compile(average, backend=BACKEND, fullgraph=True)(x)
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

    def test_functions_can_be_pickled(self, tmp_path: Path) -> None:
        """As for `mp.Process(target=torch.save)`: a child without us finds torch's own there."""
        from torch.distributed import checkpoint

        def functions() -> list[Any]:
            return [torch.save, torch.distributed.all_reduce, checkpoint.save]

        own = functions()
        with watched(tmp_path):
            patched = functions()
            assert all(f is not p for f, p in zip(own, patched, strict=True))
            pickled = [pickle.dumps(p) for p in patched]
            assert [pickle.loads(p) for p in pickled] == patched
        assert [pickle.loads(p) for p in pickled] == own

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
