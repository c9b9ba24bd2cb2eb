"""Every test of a stack begins with the same seed, one thread and an empty compiler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(autouse=True)
def fresh_torch() -> Iterator[None]:
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch.set_num_threads(threads)
