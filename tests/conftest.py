"""What all tests share: recorded runs, a fake NVML, and a look at what each test left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes import processes, residue
from tests.fakes.nvml import NvmlRig
from tests.fakes.recordings import RecordedRuns, needed_by

# A shell that starts tests in the background has them ignore Ctrl-C, and all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

RECORDING_S = 1800.0  # the first test that looks at recordings waits for all of them


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that look at recordings come first; waiting for those has its own time limit."""
    for item in items:
        if item.get_closest_marker("needs_recordings") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(RECORDING_S))
    items.sort(key=lambda item: item.get_closest_marker("needs_recordings") is None)


@pytest.fixture(scope="session")
def recorded_runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> RecordedRuns:
    """The runs that this session's tests look at, by recording."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # all workers share it
    return RecordedRuns(base / "recordings", needed_by(request.session.items))


@pytest.fixture
def fake_nvml(tmp_path: Path) -> Callable[..., NvmlRig]:
    """Makes GPUs of known power for processes that this test starts: ``fake_nvml(gpus=2, …)``."""

    def make(**options: object) -> NvmlRig:
        return NvmlRig(tmp_path, **{"period_s": 0.1, **options})  # type: ignore[arg-type]

    return make


@pytest.fixture(autouse=True)
def no_residue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """A test leaves no thread, process, ring or patch of ours behind."""
    was = residue.before()
    yield
    try:
        if request.node.get_closest_marker("dies_in_process"):
            return  # a recorder that is killed in this process leaves its threads
        left = residue.after(request.node.nodeid, tmp_path, was)
        assert not left, left
    finally:
        processes.close_started()
