"""A watched run whose hooks come and go, for steps with and without them in one process."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.fakes.processes import await_recorder

SETTLED_S = 6.0  # the recorder's imports


@contextlib.contextmanager
def watched(model: Any, optimizer: Any, settled_s: float = SETTLED_S) -> Iterator[Any]:
    """A run without hooks, once its recorder has settled; :func:`hooks` puts them on."""
    import probe

    with tempfile.TemporaryDirectory() as runs:
        with probe.watch(model, optimizer, dir=runs) as run:
            run._engine.uninstall()
            time.sleep(settled_s)
            yield run
        await_exit(run.path)  # it still seals


@contextlib.contextmanager
def hooks(run: Any, model: Any, optimizer: Any) -> Iterator[None]:
    """Its hooks are on the model and the optimizer."""
    engine = run._engine
    engine._model, engine._optimizers = model, [optimizer]
    engine.install()
    try:
        yield
    finally:
        engine.uninstall()


def await_exit(run: Path) -> None:
    """Wait until a run's recorder is gone, at most 10 s."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        psutil.Process(await_recorder(run)).wait(timeout=10)
