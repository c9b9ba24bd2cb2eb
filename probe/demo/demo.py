"""One run of the demo: which meter, the training, and what came out."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..clock import MACHINE_CLOCK
from ..errors import NothingToReport, UsageError
from ..model import DeviceKind, Source
from ..report.model import Report
from ..sensors import SensorContext, discover_sensors
from ..session.jobs.job import current_job, device_request
from ..session.options import WatchOptions
from ..session.run import Run
from .truth import TrueEnergy

_EDGES_PER_S = 2_000  # several times what this training has on a quick CPU
_MODELS = "codecarbon"  # no meter, and slow to open


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished demo; ``true_j`` is None where a real meter was read."""

    report: Report
    run: Path
    true_j: Mapping[str, float] | None


def check() -> None:
    """Raises UsageError if torch is missing, or this process belongs to another run."""
    if os.environ.get("PROBE_RUN") or current_job().world_size > 1:
        raise UsageError("`probe demo` makes a run of its own: start it alone")
    if importlib.util.find_spec("torch") is None:
        raise UsageError("torch is not installed, and the demo trains a model: pip install torch")


def real_meters() -> list[Source]:
    """The meters of this machine that count into a run's measured energy."""
    pid = os.getpid()
    request = device_request(None, current_job())
    context = SensorContext(requests=(request,), pids=(pid,), ranks={0: pid})
    meters = []
    for kind in discover_sensors().values():
        if kind.name == _MODELS:
            continue
        sensor = kind(context)
        try:
            meters += [source for source in sensor.open() if source.in_total]
        except Exception:  # absent; or a third party's that is broken, of which a run would tell
            continue
        finally:
            sensor.close()
    return meters


def run_demo(directory: str | None, seconds: float, meters: list[Source]) -> Outcome:
    """Train and estimate.

    Args:
        meters: the real ones; with none of them the simulated card is measured.

    Raises:
        UsageError: torch is missing, or this process belongs to another run.
        StoreError: the run cannot be recorded.
        NothingToReport: nothing was recorded.
    """
    check()
    import torch

    from . import training

    training.spare_cores()
    truth = None if meters else TrueEnergy(int(_EDGES_PER_S * (seconds + 10)))
    on_gpu = any(meter.device_kind is DeviceKind.ACCELERATOR for meter in meters)
    device = torch.device("cuda" if on_gpu and torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = training.make_model().to(device)
    enter = truth.enter if truth is not None else _ignore
    optimizer = training.Adam(model, enter)
    run = Run(_options(directory, truth), model, optimizer, 1, MACHINE_CLOCK)
    failed = True
    try:
        training.train(model, optimizer, device, seconds, enter, run.log)
        failed = False
    finally:
        run.close(failed=failed, exit_code=int(failed))
        if truth is not None:
            truth.close()
    report = run.report()
    if not isinstance(report, Report) or not report.run.steps:
        raise NothingToReport(f"nothing was recorded: see {run.path}")
    return Outcome(report, run.path, truth.joules() if truth is not None else None)


def _options(directory: str | None, truth: TrueEnergy | None) -> WatchOptions:
    """Those of a run that no variable of the environment changes."""
    return WatchOptions(
        name="demo",
        dir=directory,
        devices=None if truth is None else "0",
        country=None,
        dither=None,
        target=None,
        prometheus=None,
        dashboard=None,
        config=None,
        data="pictures made up by the demo",
        modules=False,
        classify=False,
        simulate=None if truth is None else truth.make_tape,
    )


def _ignore(_phase: str) -> None:
    """A real card draws what it draws."""
