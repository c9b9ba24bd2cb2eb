"""``watch(classify=True)``: operations of known bytes and flops, rates that are kept, one note."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from probe.instrument.roofline import NOT_SEPARATED, step_classifier  # noqa: E402
from probe.instrument.roofline import ridge as rates  # noqa: E402
from probe.instrument.roofline.graph_operations import GraphOperations, Operation  # noqa: E402
from probe.instrument.roofline.ridge import Ridge, kept_ridge  # noqa: E402
from probe.instrument.roofline.step_classifier import memory_bound  # noqa: E402
from tests.fakes.phase_recording import Watched, watched  # noqa: E402

EVEN = Ridge(1e12, 1e11)  # ten operations a byte
FOREVER = float("inf")


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PROBE_CALIBRATION", str(tmp_path / "kept"))
    return tmp_path / "kept"


def graph_of(output: Any) -> GraphOperations:
    """The operations of a backward from the sum of ``output``."""
    loss = output.sum()
    loss.backward()
    graph = GraphOperations()
    graph.add_backward([loss], FOREVER)
    return graph


def flops(graph: GraphOperations, phase: str) -> float:
    return sum(each.flops for each in graph.operations if each.phase == phase)


def test_the_closed_form_of_one_product() -> None:
    """x (n, k) · W (k, m): 2nkm operations, 4 (nk + km + nm) bytes; its sum reads 4nm more."""
    n, k, m = 512, 256, 128
    weight = nn.Parameter(torch.zeros(k, m))
    batch = torch.zeros(n, k, requires_grad=True)
    graph = graph_of(batch @ weight)
    moved = 4.0 * (n * k + k * m + n * m)
    forward = [each for each in graph.operations if each.phase == "forward"]
    assert sorted(forward, key=lambda each: each.flops) == [
        Operation("forward", 0.0, 4.0 * n * m + 4),
        Operation("forward", 2.0 * n * k * m, moved),
    ]
    products = [each for each in graph.operations if each.phase == "backward" and each.flops]
    assert products == [Operation("backward", 2.0 * n * k * m, moved)] * 2
    # A batch that needs no gradient moves as much, and its gradient is not computed.
    frozen = graph_of(torch.zeros(n, k) @ weight)
    assert frozen.unseen_elements == n * k
    assert flops(frozen, "forward") == flops(frozen, "backward") == 2.0 * n * k * m
    assert max(each.moved_bytes for each in frozen.operations) == moved


def lstm() -> Any:
    return nn.LSTM(24, 16, num_layers=2, batch_first=True)(torch.randn(4, 7, 24))[0]


def attended() -> Any:
    q, k, v = (torch.randn(2, 4, 9, 16, requires_grad=True) for _ in range(3))
    return nn.functional.scaled_dot_product_attention(q, k, v)


MODELS: dict[str, Callable[[], Any]] = {
    "linear": lambda: nn.Linear(32, 48)(torch.randn(8, 32, requires_grad=True)),
    "stack": lambda: nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 8))(
        torch.randn(8, 32)
    ),
    "convolution": lambda: nn.Conv2d(6, 8, 3, stride=2)(
        torch.randn(4, 6, 16, 16, requires_grad=True)
    ),
    "transposed": lambda: nn.ConvTranspose2d(6, 8, 3, stride=2)(
        torch.randn(4, 6, 8, 8, requires_grad=True)
    ),
    "attention by hand": lambda: nn.MultiheadAttention(32, 4, batch_first=True)(
        *[torch.randn(4, 7, 32)] * 3
    )[0],
    "transformer": lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)(
        torch.randn(4, 7, 32)
    ),
    "products": lambda: torch.einsum(
        "bij,jk->bik",
        torch.randn(3, 4, 5, requires_grad=True),
        torch.randn(5, 6, requires_grad=True),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_as_many_operations_as_torchs_own_counter(name: str) -> None:
    torch.manual_seed(0)
    with FlopCounterMode(display=False) as counter:
        output = MODELS[name]()
        forward = counter.get_total_flops()
        loss = output.sum()
        loss.backward()
        whole = counter.get_total_flops()
    graph = GraphOperations()
    graph.add_backward([loss], FOREVER)
    assert not graph.hidden
    if name == "transformer":  # attention's kernel of CPUs is not in torch's table
        assert flops(graph, "forward") >= forward > 0.8 * flops(graph, "forward")
        return
    assert flops(graph, "forward") == forward
    assert flops(graph, "backward") == whole - forward


def test_attention_recurrence_and_groups() -> None:
    """What torch's counter does not know on a CPU, or counts wrongly, by its closed form."""
    image = torch.randn(4, 6, 16, 16, requires_grad=True)
    grouped = graph_of(nn.Conv2d(6, 8, 3, groups=2)(image))
    assert flops(grouped, "forward") == 2 * (4 * 8 * 14 * 14) * (3 * 3 * 3)
    assert flops(grouped, "backward") == 2 * flops(grouped, "forward")
    assert flops(graph_of(attended()), "forward") == 2 * 2 * (2 * 4) * 9 * 9 * 16
    graph = graph_of(lstm())
    weights = 4 * 16 * (24 + 16) + 4 * 16 * (16 + 16)
    assert flops(graph, "forward") == 2 * 4 * 7 * weights
    assert flops(graph, "backward") == 2 * flops(graph, "forward")


def test_half_precision_is_half_as_many_bytes() -> None:
    layer, batch = nn.Linear(64, 64, bias=False), torch.randn(32, 64)
    full = graph_of(layer(batch))
    with torch.autocast("cpu", torch.bfloat16):
        output = layer(batch)
    half = graph_of(output)
    product = [max(graph.operations, key=lambda op: op.flops) for graph in (full, half)]
    assert product[1].moved_bytes == product[0].moved_bytes / 2
    assert product[1].flops == product[0].flops
    assert set(half.flops_of) == {torch.bfloat16}


def test_a_product_computes_and_a_norm_waits() -> None:
    large = graph_of(nn.Linear(2048, 2048, bias=False)(torch.randn(2048, 2048)))
    assert max(memory_bound(large.operations, EVEN).values()) < 0.05
    norm = graph_of(
        nn.Sequential(nn.LayerNorm(512), nn.Tanh())(torch.randn(64, 512, requires_grad=True))
    )
    assert memory_bound(norm.operations, EVEN) == {"forward": 1.0, "backward": 1.0}


def test_what_two_backwards_share_is_one_forward() -> None:
    hidden = nn.Linear(8, 8)(torch.randn(4, 8))
    graph = GraphOperations()
    for loss in (hidden.sum(), hidden.square().sum()):
        loss.backward(retain_graph=True)
        graph.add_backward([loss], FOREVER)
    assert flops(graph, "forward") == 2 * 4 * 8 * 8
    assert flops(graph, "backward") == 2 * flops(graph, "forward")


# -- the rates of the machine ------------------------------------------------------------------


def test_the_rates_are_measured_once_and_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, measured = torch.device("cpu"), []

    def counted(*words: Any) -> Ridge:
        measured.append(words)
        return EVEN

    monkeypatch.setattr(rates, "ridge", counted)
    assert kept_ridge(device, torch.float32) == kept_ridge(device, torch.float32) == EVEN
    assert measured == [("cpu", torch.float32)]
    (path,) = folder.glob("*.json")
    for spoiled in ("", "[]", json.dumps(json.loads(path.read_text()) | {"torch": "0"})):
        path.write_text(spoiled)
        assert kept_ridge(device, torch.float32) == EVEN
    assert len(measured) == 4
    kept_ridge(device, torch.bfloat16)
    assert len(measured) == 5 and len(list(folder.glob("*.json"))) == 2


def test_rates_that_cannot_be_kept_are_measured_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PROBE_CALIBRATION", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(rates, "ridge", lambda *_: EVEN)
    assert kept_ridge(torch.device("cpu"), torch.float32) == EVEN


def test_measuring_draws_nothing_random_and_takes_a_moment() -> None:
    before = torch.get_rng_state()
    peak_rates = rates.ridge("cpu", torch.float32)
    assert torch.equal(before, torch.get_rng_state())
    assert 1e8 < peak_rates.flops_per_s < 1e15 and 1e8 < peak_rates.bytes_per_s < 1e13


# -- inside a training -------------------------------------------------------------------------


def trained(
    folder: Path, model: Any, forward: Callable[[Any], Any] | None = None, steps: int = 3
) -> Watched:
    with watched(folder, classify=True) as run:
        optimizer = torch.optim.AdamW(
            [each for each in model.parameters() if each.requires_grad] or [nn.Parameter()]
        )
        for _ in range(steps):
            batch = torch.randn(16, 32)
            (model if forward is None else forward)(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return run


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))


def test_a_step_is_counted_once_and_as_startup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, add = [], GraphOperations.add_backward

    def noted(self: Any, *words: Any) -> None:
        counted.append(words)
        add(self, *words)

    monkeypatch.setattr(GraphOperations, "add_backward", noted)
    run = trained(tmp_path, perceptron())
    roofline = run.engine.step_roofline
    assert len(counted) == 1 and roofline is not None
    assert roofline.memory_bound["optimizer"] == 1.0
    assert set(roofline.memory_bound) == {"forward", "backward", "optimizer"}
    assert json.loads(json.dumps(roofline.to_dict()))["flops_per_s"] > 0
    marks = run.sequence()
    assert marks.index("startup", 1) == marks.index("backward") + 2  # after it, and then `other`
    assert marks.count("startup") == 3  # the begin, the graph, the rates
    assert run.engine.all_warnings() == []


def test_it_takes_less_than_two_seconds(tmp_path: Path) -> None:
    """A transformer of twelve layers, on a machine whose rates are not known."""
    layers = [nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(12)]
    model = nn.Sequential(*layers)
    with watched(tmp_path, classify=True) as run:
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            model(torch.randn(8, 16, 32)).sum().backward()
            optimizer.step()
    assert run.engine.step_roofline is not None
    startup = [
        (end - begin) / 1e9
        for begin, end, code in zip(
            run.spans.begin_ns, run.spans.end_ns, run.spans.code, strict=True
        )
        if run.names.get(int(code)) == "startup"
    ]
    assert len(startup) >= 3 and sum(startup[-2:]) < 2.0


def test_without_classify_nothing_is_counted(tmp_path: Path) -> None:
    model = perceptron()
    with watched(tmp_path) as run:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            model(torch.randn(4, 32)).sum().backward()
            optimizer.step()
    assert run.engine.step_roofline is None and run.sequence().count("startup") == 1


class Twice(torch.autograd.Function):
    """A function of the user's own: nobody knows what it computes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:  # type: ignore[override]
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        return 2 * gradient


def with_own_function(model: Any) -> Callable[[Any], Any]:
    return lambda batch: Twice.apply(Twice.apply(Twice.apply(model(batch))))


def with_checkpoint(model: Any) -> Callable[[Any], Any]:
    return lambda batch: checkpoint(model, batch.requires_grad_(), use_reentrant=True)


def frozen_first() -> Any:
    model = perceptron()
    model[0].requires_grad_(False)
    return model


NOTES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], str]] = {
    "own function": (lambda: nn.Linear(32, 32), with_own_function, "Twice"),
    "reentrant checkpoint": (perceptron, with_checkpoint, "CheckpointFunction"),
    "compiled": (perceptron, lambda model: torch.compile(model, backend="aot_eager"), "Compiled"),
    "frozen": (frozen_first, lambda model: model, "a part of the model is frozen"),
}


@pytest.mark.parametrize("name", NOTES)
def test_what_cannot_be_counted_is_one_note(name: str, tmp_path: Path) -> None:
    made, called, reason = NOTES[name]
    model = made()
    run = trained(tmp_path, model, called(model), steps=4)
    assert run.engine.step_roofline is None
    (note,) = run.engine.all_warnings()
    assert note.startswith(NOT_SEPARATED) and reason in note


def test_a_low_rank_adapter_is_counted_through_frozen_weights(tmp_path: Path) -> None:
    """Where a gradient passes frozen weights they are seen."""
    first, frozen = nn.Linear(32, 64), nn.Linear(64, 64).requires_grad_(False)
    run = trained(tmp_path, nn.Sequential(first, nn.Sequential(frozen, nn.Linear(64, 64))))
    assert run.engine.step_roofline is not None and run.engine.all_warnings() == []


@pytest.mark.parametrize("broken", ["add_backward", "kept_ridge"])
def test_any_exception_is_one_note_and_the_training_goes_on(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_words: Any) -> Any:
        raise RuntimeError("nobody thought of this")

    owner: Any = GraphOperations if broken == "add_backward" else step_classifier
    monkeypatch.setattr(owner, broken, fails)
    run = trained(tmp_path, perceptron(), steps=5)
    assert run.engine.step_roofline is None and run.steps == 5
    (note,) = run.engine.all_warnings()
    assert note == f"{NOT_SEPARATED}: RuntimeError: nobody thought of this"
    assert run.counts["backward"] == 5  # it is still recorded


def test_a_graph_that_takes_too_long_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_classifier, "_BUDGET_S", 0.0)
    layer = nn.Linear(32, 32)

    def deep(batch: Any) -> Any:
        for _ in range(300):
            batch = batch + layer(batch)
        return batch

    run = trained(tmp_path, layer, deep)
    (note,) = run.engine.all_warnings()
    assert "operations in a step" in note and run.engine.step_roofline is None


def test_the_gpus_peak_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured only where what it takes fits below the peak that the training has reached."""
    peak, held = 2 << 30, 2 << 30

    class Cuda:
        @staticmethod
        def is_current_stream_capturing() -> bool:
            return False

        @staticmethod
        def max_memory_allocated(_device: Any) -> int:
            return peak

        @staticmethod
        def memory_allocated(_device: Any) -> int:
            return held

        @staticmethod
        def get_device_name(_device: Any) -> str:
            return "NVIDIA Toy"

    monkeypatch.setattr(torch, "cuda", Cuda)
    device = torch.device("cuda", 0)
    assert not rates.has_room(device, torch.bfloat16)
    held = 1 << 30
    assert rates.has_room(device, torch.bfloat16)
