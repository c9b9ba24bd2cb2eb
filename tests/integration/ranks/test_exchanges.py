"""Techniques that replace DDP's all-reduce: what arrives, what is sent, and that it trains.

The mathematics are written here once more, in numpy, from the papers. The small part has one k for
each technique, ``full`` has every k, number of ranks and place of a restart.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.fakes import processes  # noqa: E402
from tests.scripts import SCRIPTS  # noqa: E402
from tests.scripts.exchange_gradients import CLASSES, HIDDEN, SHAPES, WIDTH, gradients  # noqa: E402

STEPS, TRAINED, RANKS = 6, 51, (2, 4)
NETWORK = [
    shape
    for a, b in ((WIDTH, HIDDEN), *[(HIDDEN, HIDDEN)] * 3, (HIDDEN, CLASSES))
    for shape in ((b, a), (b,))
]
DGC = {
    "share": 0.05,
    "momentum": 0.9,
    "clip": 46.5,
    "warmup_steps": 4,
}  # on two ranks some gradients are longer
EXCHANGED: dict[str, dict[str, Any]] = {
    "topk": {"share": 0.1},
    "dgc": DGC,
    "int8": {"block": 64},
    "onebit": {"block": 64, "start": 0},
    "powersgd": {"rank": 2, "start": 1},
    "compression": {"dtype": "bf16"},
    "local_sgd": {"period": 2, "start": 2},
    "hierarchical": {"group": 2},
}
TRAINS: dict[str, dict[str, Any]] = {
    "topk": {},
    "int8": {},
    "onebit": {},
    "powersgd": {},
    "compression": {},
    "local_sgd": {},
    "hierarchical": {"group": 2},
}


def exchange(name: str, stop: int | None = None) -> dict[str, Any]:
    technique = "topk" if name == "dgc" else name
    case = {"task": "exchange", "technique": technique, "settings": EXCHANGED[name]}
    return {**case, "oracle": name, "steps": STEPS, "stop": stop}


def training(name: str, k: int, half: bool = False) -> dict[str, Any]:
    case = {"task": "train", "technique": name, "settings": TRAINS[name]}
    return {**case, "k": k, "half": half, "steps": TRAINED}


def possible(name: str, world: int) -> bool:
    return name != "hierarchical" or world > 2  # two tiers


def small(world: int) -> dict[str, Any]:
    names = [name for name in TRAINS if possible(name, world)]
    if world == 4:
        names = ["hierarchical"]
    ks = np.random.default_rng(world).choice([1, 2, 4], len(names))
    cases = {f"train {name}": training(name, int(k)) for name, k in zip(names, ks, strict=True)}
    if world == 2:
        cases |= {name: exchange(name) for name in EXCHANGED if possible(name, world)}
        cases |= {f"{name} resumed": exchange(name, stop=3) for name in ("dgc", "powersgd")}
        cases["local_sgd"]["stop"] = 4
        cases["train local_sgd half"] = training("local_sgd", 1, half=True)
    else:
        cases["hierarchical"] = exchange("hierarchical")
    return cases


def every(world: int) -> dict[str, Any]:
    cases = {name: exchange(name) for name in EXCHANGED if possible(name, world)}
    cases |= {f"{name} {stop}": exchange(name, stop) for name in cases for stop in (1, 3)}
    for name in TRAINS:
        if possible(name, world):
            cases |= {f"train {name} {k}": training(name, k) for k in (1, 2, 4)}
            cases[f"train {name} half"] = training(name, 1, half=True)
    return cases


def launch(folder: Path, world: int, cases: dict[str, Any]) -> list[dict[str, Any]]:
    """What each rank found, by the name of the case and of the value."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.scripts.forked_ranks",
            str(world),
            str(SCRIPTS / "exchange_gradients.py"),
            str(folder),
            json.dumps(cases),
        ],
        capture_output=True,
        text=True,
        env=processes.environment(folder / "runs", {"OMP_NUM_THREADS": "1"}),
        cwd=folder,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(world)]


# -- the mathematics, once more ------------------------------------------------------


def in_memory(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Flat, in the order of memory: the third is channels_last."""
    return [(a.transpose(0, 2, 3, 1) if a.ndim == 4 else a).reshape(-1) for a in arrays]


def blocks(numbers: np.ndarray, width: int) -> Iterator[np.ndarray]:
    yield from (numbers[i : i + width] for i in range(0, len(numbers), width))


def largest(numbers: np.ndarray, share: float) -> np.ndarray:
    """The numbers, zero where they are not sent."""
    count = max(1, int(share * len(numbers)))
    chosen = np.argsort(-np.abs(numbers), kind="stable")[:count]
    sparse = np.zeros_like(numbers)
    sparse[chosen] = numbers[chosen]
    return sparse


def in_bytes(numbers: np.ndarray, width: int) -> np.ndarray:
    steps = [(np.abs(part).max() / np.float32(127), part) for part in blocks(numbers, width)]
    return np.concatenate([np.rint(part / step) * step for step, part in steps])


def in_signs(numbers: np.ndarray, width: int) -> np.ndarray:
    return np.concatenate(
        [np.where(p >= 0, 1, -1) * np.abs(p).mean() for p in blocks(numbers, width)]
    )


def with_memory(world: int, lossy: Any) -> list[list[np.ndarray]]:
    """Error feedback: each rank sends lossy(g + e), and keeps e = g + e − lossy(g + e)."""
    kept = [[np.zeros(g.size, np.float32) for g in gradients(0, 0)] for _ in range(world)]
    steps = []
    for step in range(STEPS):
        sums = [np.zeros(g.size, np.float32) for g in gradients(0, 0)]
        for rank in range(world):
            for i, g in enumerate(in_memory(gradients(rank, step))):
                wanted = kept[rank][i] + g
                sent = lossy(wanted)
                kept[rank][i] = wanted - sent
                sums[i] += sent / world
        steps.append(sums)
    return steps


def deep_gradient_compression(world: int) -> list[list[np.ndarray]]:
    """Lin et al. 2018, algorithm 4: local clipping, u and v, both masked; the share falls."""
    zeros = [np.zeros(g.size) for g in gradients(0, 0)]
    u, v = ([[z.copy() for z in zeros] for _ in range(world)] for _ in range(2))
    steps = []
    for step in range(STEPS):
        done = min(step / DGC["warmup_steps"], 1)
        share = math.exp((1 - done) * math.log(0.25) + done * math.log(DGC["share"]))
        sums = [z.copy() for z in zeros]
        for rank in range(world):
            arrived = [g.astype(float) for g in in_memory(gradients(rank, step))]
            norm = math.sqrt(sum(float((g**2).sum()) for g in arrived))
            scale = min(1.0, DGC["clip"] / math.sqrt(world) / norm)
            for i, g in enumerate(arrived):
                u[rank][i] = DGC["momentum"] * u[rank][i] + scale * g
                v[rank][i] = v[rank][i] + u[rank][i]
                sent = largest(v[rank][i], share + 1e-12)
                waits = sent == 0
                u[rank][i] *= waits
                v[rank][i] *= waits
                sums[i] += sent / world
        steps.append(sums)
    return steps


def gram_schmidt(matrix: np.ndarray) -> np.ndarray:
    basis = matrix.copy()
    for i in range(basis.shape[1]):
        basis[:, i] -= basis[:, :i] @ (basis[:, :i].T @ basis[:, i])
        basis[:, i] /= np.linalg.norm(basis[:, i])
    return basis


def power_sgd(world: int) -> list[list[np.ndarray]]:
    """Vogels et al. 2019, algorithms 1 and 2, in float64; only its first Q is drawn as ours is."""
    rank_, start = EXCHANGED["powersgd"]["rank"], EXCHANGED["powersgd"]["start"]
    rows = {i: shape[0] for i, shape in enumerate(SHAPES) if i in (0, 2)}  # the large matrices
    q = {}
    for i, count in rows.items():
        columns = math.prod(SHAPES[i]) // count
        seeded = torch.Generator().manual_seed(i)
        q[i] = gram_schmidt(torch.randn(columns, rank_, generator=seeded).double().numpy())
    kept = [dict.fromkeys(rows, 0.0) for _ in range(world)]
    steps = []
    for step in range(STEPS):
        received = [in_memory([g.astype(float) for g in gradients(r, step)]) for r in range(world)]
        means = [sum(parts) / world for parts in zip(*received, strict=True)]
        for i, count in rows.items() if step >= start else ():
            matrices = [received[r][i].reshape(count, -1) + kept[r][i] for r in range(world)]
            p = gram_schmidt(sum(m @ q[i] for m in matrices) / world)
            own = [m.T @ p for m in matrices]
            for r in range(world):
                kept[r][i] = matrices[r] - p @ own[r].T
            q[i] = sum(own) / world
            means[i] = (p @ q[i].T).reshape(-1)
        steps.append(means)
    return steps


def exact(world: int) -> list[list[np.ndarray]]:
    return [
        [
            sum(parts) / world
            for parts in zip(*(in_memory(gradients(r, s)) for r in range(world)), strict=True)
        ]
        for s in range(STEPS)
    ]


ORACLES: dict[str, tuple[Any, float]] = {
    "topk": (lambda world: with_memory(world, lambda g: largest(g, 0.1)), 1e-6),
    "dgc": (deep_gradient_compression, 1e-5),
    "int8": (lambda world: with_memory(world, lambda g: in_bytes(g, 64)), 1e-6),
    "onebit": (lambda world: with_memory(world, lambda g: in_signs(g, 64)), 1e-5),
    "powersgd": (power_sgd, 1e-4),
    "compression": (exact, 0.03),  # 8 bits of numbers up to 4
    "hierarchical": (exact, 1e-6),
}


def bytes_of_step(name: str, settings: dict[str, Any], shapes: Any, step: int) -> int:
    """What rank 0 sends in a step, gradients in fp32."""
    counts = [math.prod(shape) for shape in shapes]
    whole = 4 * sum(counts)
    if name == "topk":
        share, warm = settings.get("share", 0.05), settings.get("warmup_steps", 0)
        if step < warm:
            share = 0.25 * (share / 0.25) ** (step / warm)
        return sum(8 * max(1, math.floor(share * n + 1e-9)) for n in counts)
    if name == "int8":
        return sum(n + 4 * math.ceil(n / settings.get("block", 256)) for n in counts)
    if name == "onebit" and step >= settings.get("start", 10):
        width = settings.get("block", 1024)
        return sum(math.ceil(n / 8) + 4 * math.ceil(n / width) for n in counts)
    if name == "powersgd" and step >= settings.get("start", 10):
        total = 0
        for shape, n in zip(shapes, counts, strict=True):
            m = n // shape[0]
            r = min(shape[0], m, settings.get("rank", 4))
            thin = r * (shape[0] + m)
            total += 4 * (thin if len(shape) > 1 and n > 2 * thin else n)
        return total
    if name == "compression":
        return whole // 2
    if name == "hierarchical":
        return 2 * whole  # a leader: to leaders, and to its group
    if name == "local_sgd":
        after = step - settings.get("start", 10)
        return whole if after < 0 or after % settings.get("period", 4) == 0 else 0
    return whole


# -- the tests -----------------------------------------------------------------------


def check_arrival(ranks: list[dict[str, Any]], name: str, oracle_name: str) -> None:
    world, (oracle, tolerance) = len(ranks), ORACLES[oracle_name]
    for step, expected in enumerate(oracle(world)):
        for rank in range(world):
            values = [ranks[rank][f"{name}/averaged{i}"][step] for i in range(len(SHAPES))]
            for value, wanted in zip(in_memory(values), expected, strict=True):
                off = np.abs(value - wanted).max()
                assert off <= tolerance, (name, step, rank, off)


def check_local_steps(ranks: list[dict[str, Any]], name: str) -> None:
    """w −= g by each rank alone but in the first two steps; after steps 2, 4, … the mean of all."""
    world = len(ranks)
    period, start = EXCHANGED["local_sgd"]["period"], EXCHANGED["local_sgd"]["start"]
    weights = [[np.zeros(shape) for shape in SHAPES] for _ in range(world)]
    for step in range(STEPS):
        drawn = [gradients(rank, step) for rank in range(world)]
        means = [sum(parts) / world for parts in zip(*drawn, strict=True)]
        for rank in range(world):
            used = means if step < start else drawn[rank]
            weights[rank] = [w - g for w, g in zip(weights[rank], used, strict=True)]
        if step >= start and (step - start) % period == 0:
            averaged = [sum(parts) / world for parts in zip(*weights, strict=True)]
            weights = [averaged for _ in range(world)]
        for rank in range(world):
            for i, wanted in enumerate(weights[rank]):
                off = np.abs(ranks[rank][f"{name}/weights{i}"][step] - wanted).max()
                assert off <= 1e-5, (step, rank, off)


def check_exchange(ranks: list[dict[str, Any]], name: str, case: dict[str, Any]) -> None:
    technique, settings = case["technique"], case["settings"]
    if technique == "local_sgd":
        check_local_steps(ranks, name)
    else:
        check_arrival(ranks, name, case["oracle"])
    sent = np.cumsum([bytes_of_step(technique, settings, SHAPES, step) for step in range(STEPS)])
    assert list(ranks[0][f"{name}/sent"]) == list(sent), name
    assert ranks[0][f"{name}/whole"] == STEPS * 4 * sum(map(math.prod, SHAPES))


def check_training(ranks: list[dict[str, Any]], name: str, case: dict[str, Any]) -> None:
    world, technique = len(ranks), case["technique"]
    losses, apart = ranks[0][f"{name}/losses"], ranks[0][f"{name}/apart"]
    assert ranks[0][f"{name}/buckets"] >= 3, name
    assert losses[0] > 1.5 and losses[-10:].mean() < 0.7, (name, losses[-10:])
    if technique == "local_sgd":
        averages = range(10, TRAINED, 4)
        assert all(apart[step] == 0 for step in (*range(10), *averages)), name
        assert all(apart[step] > 0 for step in range(10, TRAINED) if step not in averages), name
    else:
        assert apart.max() == 0, name
    if case["half"]:
        return
    sent = [bytes_of_step(technique, TRAINS[technique], NETWORK, s) for s in range(TRAINED)]
    whole = TRAINED * 4 * sum(map(math.prod, NETWORK))
    assert ranks[0][f"{name}/sent"] == sum(sent), name
    assert all(values[f"{name}/whole"] == whole for values in ranks), name
    if technique == "hierarchical":  # half the ranks are leaders, the others send to theirs
        assert [int(v[f"{name}/sent"]) for v in ranks] == [2 * whole, whole] * (world // 2)


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.full)])
@pytest.mark.parametrize("cases", [small, pytest.param(every, marks=pytest.mark.full)])
def test_what_arrives_and_what_is_sent_are_as_the_papers_say(
    cases: Any, world: int, tmp_path: Path
) -> None:
    wanted = cases(world)
    ranks = launch(tmp_path, world, wanted)
    for name, case in wanted.items():
        if case["task"] == "exchange":
            check_exchange(ranks, name, case)
        else:
            check_training(ranks, name, case)
