"""Snapshots that are written while the training goes on: it stands still for a copy only."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.utils._pytree import tree_map_only

from ..errors import TrainingFailed
from . import snapshot
from .failures import one_line


class BackgroundWriter:
    """Writes one snapshot at a time in a thread of its own, on every rank.

    A snapshot gets its name when all ranks have written their part: rank 0 sees that by files,
    since a thread must not call collectives beside the training's. All ranks call all methods, in
    order.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._thread: threading.Thread | None = None
        self._step = 0
        self._error: Exception | None = None

    def save(self, step: int, files: Mapping[str, object]) -> None:
        """Copy what is to be written and begin to write it.

        Args:
            files: what each file of this rank holds, by its name.

        Raises:
            TrainingFailed: the snapshot before could not be written.
        """
        self.finish()
        self._step = step
        copies = tree_map_only(torch.Tensor, lambda t: t.detach().to("cpu", copy=True), dict(files))
        partial = snapshot.begin(self._folder, step)
        self._thread = threading.Thread(
            target=self._write, args=(partial, copies), name="snapshot", daemon=False
        )
        self._thread.start()

    def _write(self, partial: Path, files: Mapping[str, object]) -> None:
        try:
            snapshot.write(partial, files)
        except Exception as error:  # torch's writer raises RuntimeError for a full disk
            self._error = error

    def poll(self) -> None:
        """After a step: name the snapshot if it is complete. Raises TrainingFailed.

        It closes nothing: ranks see the files at different steps, and all must agree whether
        :meth:`finish` has collectives to call.
        """
        if self._thread is not None and not self._thread.is_alive():
            self._check()
            snapshot.name_if_complete(self._folder, self._step)

    def finish(self) -> None:
        """Wait until the snapshot of the last :meth:`save` is complete. Raises TrainingFailed."""
        if self._thread is not None:
            self._thread.join()
            self._check()
            snapshot.name_when_complete(self._folder, self._step)
            self._thread = None

    def _check(self) -> None:
        if self._error is not None:
            raise TrainingFailed(
                f"the snapshot of step {self._step} cannot be written to {self._folder}: "
                f"{one_line(self._error)}"
            ) from self._error
