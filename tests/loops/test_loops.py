"""Every loop with and without the arguments of watch(): counts and seconds are the true ones."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._dynamo import convert_frame  # noqa: E402

from probe.instrument.patches import dynamo  # noqa: E402
from tests.fakes import span_sums  # noqa: E402
from tests.fakes.phase_recording import watched  # noqa: E402
from tests.loops.archetypes import LOOPS  # noqa: E402
from tests.loops.compare import Difference, differences  # noqa: E402
from tests.loops.models import Net  # noqa: E402
from tests.loops.truth import Truth  # noqa: E402

MEASUREMENTS = 6  # another process may take the core between our look at the clock and the truth's


@pytest.fixture(autouse=True)
def _nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own: others of this one may have traced."""
    monkeypatch.setattr(dynamo, "_traces", False)
    monkeypatch.setattr(convert_frame, "FRAME_COUNTER", 0)


@pytest.mark.parametrize("passed", [False, True], ids=["watch()", "watch(model,optimizer)"])
@pytest.mark.parametrize("name", LOOPS)
def test_counts_and_seconds(name: str, passed: bool, tmp_path: Path) -> None:
    """Counts are exact every time; seconds are those of the least disturbed measurement."""
    for _ in range(MEASUREMENTS):
        wrong = measured(name, passed, tmp_path)
        assert not any("count" in w.what or w.what == "steps" for w in wrong), describe(wrong)
        if not wrong:
            return
    pytest.fail(describe(wrong))


def measured(name: str, passed: bool, tmp_path: Path) -> list[Difference]:
    """What is wrong with what was recorded of a loop."""
    torch.manual_seed(0)
    with Truth() as truth:
        loop = LOOPS[name](truth)
        model, optimizer = next(loop)
        with watched(tmp_path, *((model, optimizer) if passed else ())) as run:
            next(loop, None)
    gc.collect()
    assert run.engine.all_warnings() == []
    seconds: dict[str, float] = {}
    for (_, code), spent in span_sums.seconds(run.spans).items():
        phase = run.names.get(code, str(code))
        seconds[phase] = seconds.get(phase, 0.0) + spent
    return differences(truth.counts().as_json(), run.steps, run.counts, seconds)


def describe(wrong: list[Difference]) -> str:
    return "; ".join(map(str, wrong))


def test_threads_that_train_at_once(tmp_path: Path) -> None:
    """One is recorded; the others' steps count, and a line says that their phases are missing."""
    steps, threads = 12, 4
    together = threading.Barrier(threads)

    def train() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        together.wait()
        for _ in range(steps):
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    with watched(tmp_path) as run:
        each = [threading.Thread(target=train) for _ in range(threads)]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join()
    assert run.engine.steps == steps * threads
    (line,) = run.engine.all_warnings()
    assert "trained at the same time: their steps are counted" in line


def test_a_model_and_an_optimizer_of_its_own_for_every_step(tmp_path: Path) -> None:
    """Of the many roots those that are gone make place for others."""
    steps = 300
    with watched(tmp_path) as run:
        for _ in range(steps):
            model = torch.nn.Linear(8, 8)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
    assert run.steps == run.counts["forward"] == run.counts["backward"] == steps
    assert run.engine.all_warnings() == [] and not run.inferred


@pytest.mark.parametrize("name", ["plain", "gan", "lbfgs", "q_learning", "written_by_data"])
def test_losses_and_weights_are_the_same_bits(name: str, tmp_path: Path) -> None:
    def trained(watch: bool) -> list[bytes]:
        torch.manual_seed(0)
        loop = LOOPS[name](Truth())
        models, _ = next(loop)
        if watch:
            with watched(tmp_path):
                next(loop, None)
        else:
            next(loop, None)
        models = models if isinstance(models, list) else [models]
        return [p.detach().numpy().tobytes() for model in models for p in model.parameters()]

    assert trained(watch=True) == trained(watch=False)
