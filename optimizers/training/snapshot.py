"""The state of a training on disk: whole or not there, whenever the machine stops."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict, cast

import torch
import torch.distributed as dist

from probe.report.model import JsonValue

from ..errors import UsageError
from ..techniques.accumulation import PolicyState
from .target_progress import ProgressState

_KEPT = 2
_STATE = "trainer.pt"


class PositionFields(TypedDict):
    """A :class:`Position` as it is saved."""

    step: int
    samples: int
    seconds: float
    train_seconds: float
    losses: list[float]
    metrics: dict[str, float]


@dataclass(slots=True)
class Position:
    """Where the training stands: what a snapshot holds beside the engine's state.

    ``seconds`` count everything, ``train_seconds`` neither evaluations nor snapshots. ``samples``
    are those since the very first step, as both clocks are.
    """

    step: int = 0
    samples: int = 0
    seconds: float = 0.0
    train_seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)

    def saved(self) -> PositionFields:
        """What a resumed run needs."""
        return {
            "step": self.step,
            "samples": self.samples,
            "seconds": self.seconds,
            "train_seconds": self.train_seconds,
            "losses": list(self.losses),
            "metrics": dict(self.metrics),
        }


class RandomState(TypedDict):
    """State of the generators: torch's, Python's, and where they are used CUDA's and numpy's."""

    torch: torch.Tensor
    python: tuple[int, tuple[int, ...], float | None]
    cuda: NotRequired[torch.Tensor]
    numpy: NotRequired[tuple[str, torch.Tensor, int, int, float]]


class TrainerState(TypedDict):
    """All that a snapshot holds of one rank beside the engine's state."""

    at: PositionFields
    consumed: int
    policy: PolicyState
    random: RandomState
    progress: ProgressState | None
    measured_k: NotRequired[dict[str, JsonValue] | None]  # of k="optimal"
    world: NotRequired[int]  # number of ranks
    run: NotRequired[str]  # directory of the run that was watched


def random_state() -> RandomState:
    """State of every random generator that a training draws from, on this rank."""
    state: RandomState = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    with contextlib.suppress(ImportError):
        import numpy as np

        # The global one: users draw from it.
        kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
        numbers = torch.from_numpy(np.array(keys))
        state["numpy"] = kind, numbers, int(position), int(has_gauss), float(gauss)
    return state


def set_random_state(state: RandomState) -> None:
    """Restore what :func:`random_state` returned."""
    torch.set_rng_state(state["torch"])
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
    if "numpy" in state:
        import numpy as np

        kind, numbers, position, has_gauss, next_gauss = state["numpy"]
        np.random.set_state((kind, numbers.numpy(), position, has_gauss, next_gauss))


def save(folder: Path, step: int, state: TrainerState, engine: Callable[[Path], None]) -> None:
    """Write ``step-…`` beside the ones before; the oldest go. All ranks call it. Raises OSError.

    Everything is written under another name and synced, then renamed: what has the right name is
    complete.
    """
    partial = begin(folder, step)
    engine(partial)
    write(partial, {state_file(): state})
    name_when_complete(folder, step)


def state_file() -> str:
    """The name of the file with this rank's :class:`TrainerState`."""
    return f"{_rank()[0]}-{_STATE}"


def begin(folder: Path, step: int) -> Path:
    """Make the folder that a snapshot is written into. All ranks call it. Raises OSError."""
    rank, several = _rank()
    partial = _partial(folder, step)
    if rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    if several:
        dist.barrier()
    return partial


def write(partial: Path, files: Mapping[str, object]) -> None:
    """Write this rank's files and say that they are complete. Raises OSError, RuntimeError."""
    for name, content in files.items():
        torch.save(content, partial / name)
    for file in partial.rglob("*"):
        if file.is_file():
            _sync(file)
    (partial / f".{_rank()[0]}-complete").touch()


def name_if_complete(folder: Path, step: int) -> None:
    """On rank 0: give the snapshot its name once all ranks have written their files."""
    if _rank()[0] == 0 and len(list(_partial(folder, step).glob(".*-complete"))) == _world():
        _name(folder, step)


def name_when_complete(folder: Path, step: int) -> None:
    """Wait for all ranks and give the snapshot its name. All ranks call it."""
    rank, several = _rank()
    if several:
        dist.barrier()
    if rank == 0 and not _final(folder, step).exists():
        _name(folder, step)
    if several:
        dist.barrier()


def _name(folder: Path, step: int) -> None:
    partial = _partial(folder, step)
    for marker in partial.glob(".*-complete"):
        marker.unlink()
    partial.rename(_final(folder, step))
    _sync(folder)
    for old in sorted(folder.glob("step-*"))[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _final(folder: Path, step: int) -> Path:
    return folder / f"step-{step:09d}"


def _partial(folder: Path, step: int) -> Path:
    return folder / f".step-{step:09d}.partial"


def latest(folder: Path) -> Path | None:
    """The newest complete snapshot; None if there is none."""
    return max(folder.glob("step-*"), default=None)


def load(path: Path) -> TrainerState:
    """Read this rank's state, or with another number of ranks what is the same on all of them.

    Of other ranks' generators nothing can be gone on with: each rank then begins a stream of its
    own, which depends on the rank and the samples consumed alone.

    Raises:
        UsageError: it cannot be read, or another version saved it.
    """
    rank, _ = _rank()
    try:
        state = _read(path, 0)
        same_ranks = state.get("world", _world()) == _world()
        if same_ranks and rank:
            state = _read(path, rank)
    except Exception as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if state.get("at", {}).keys() != PositionFields.__annotations__.keys():
        raise UsageError(f"{path} was saved by another version: train from the begin")
    if same_ranks:
        return state
    torch.manual_seed(1_000_003 * state["at"]["samples"] + rank)
    random.seed(torch.initial_seed())
    return {**state, "random": random_state()}


def _read(path: Path, rank: int) -> TrainerState:
    state = torch.load(path / f"{rank}-{_STATE}", weights_only=True)
    return cast(TrainerState, state)


def _world() -> int:
    return dist.get_world_size() if _rank()[1] else 1


def _rank() -> tuple[int, bool]:
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    return (dist.get_rank() if several else 0), several


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
