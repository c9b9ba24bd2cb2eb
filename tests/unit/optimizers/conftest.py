"""What tests of trainings share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sums in one order, bit for bit; runs are kept in the test's folder."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))
    yield
    torch.set_num_threads(before)
