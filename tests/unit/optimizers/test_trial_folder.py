"""A trial that is over is judged once its recorder has written how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from optimizers import trial_folder
from probe.model import RunStatus
from probe.store import reader

LOOKS = 3


def seen(*, sealed_after: float) -> Callable[[Path], object]:
    """A reader of a run whose recorder, so far unseen, seals it after some looks."""
    looks = [0]

    class Reader:
        def __init__(self, _run: Path):
            looks[0] += 1
            sealed = looks[0] > sealed_after
            self.meta = {"status": str(RunStatus.FINISHED if sealed else RunStatus.RUNNING)}
            self.status = RunStatus.FINISHED if sealed else RunStatus.KILLED

    Reader.looks = looks  # type: ignore[attr-defined]
    return Reader


def test_a_recorder_that_was_not_seen_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    late = seen(sealed_after=LOOKS)
    monkeypatch.setattr(reader, "RunReader", late)
    trial_folder.await_seal(Path("run"))
    assert late.looks[0] == LOOKS + 1  # type: ignore[attr-defined]


def test_one_that_never_comes_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "RunReader", seen(sealed_after=float("inf")))
    monkeypatch.setattr(trial_folder, "_UNSEEN_S", 0.2)
    begin_s = time.monotonic()
    trial_folder.await_seal(Path("run"))
    assert 0.2 <= time.monotonic() - begin_s < trial_folder._SEAL_S / 2
