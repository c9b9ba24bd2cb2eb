"""The stored runs as exporters see them, and figures of their reports in plain arithmetic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from exporters import StoredRun
from probe.report.model import MemoryRow, Report, SourceRow
from probe.store.trainings import single
from tests.fakes.reports import rate_row
from tests.fixtures.archives import STORED_RUNS, unpack
from tests.fixtures.recordings import RUNS

WITH_RATES = "with-rates"  # no stored run is long enough for rates, or has memory per phase
LABELS = sorted({*RUNS, WITH_RATES} - {"ablation"})
J_PER_KWH = 3.6e6
Open = Callable[[str], StoredRun]


def opener(folder: Path) -> Open:
    """Opens the stored runs by their labels, each once; they are unpacked into ``folder``."""
    unpack(STORED_RUNS, folder)
    opened: dict[str, StoredRun] = {}

    def open_(label: str) -> StoredRun:
        if label == WITH_RATES:
            return with_rates(open_("one-gpu"))
        if label not in opened:
            (path,) = (folder / "runs").glob(f"*-[0-9][0-9][0-9][0-9][0-9][0-9]-{label}")
            opened[label] = StoredRun(single(path))
        return opened[label]

    return open_


def with_rates(run: StoredRun) -> StoredRun:
    """The run, and in its report rates and memory of some phases as if they had been recorded."""
    again = StoredRun(run.path)
    held = MemoryRow(
        rank=0,
        device="rank0",
        quantity="allocated",
        source="",
        phase="forward",
        mean_bytes=2e9,
        peak_bytes=3e9,
        peak_at_most_bytes=4e9,
    )
    again.report = replace(
        run.report,
        memory=(held, replace(held, quantity="resident", rank=1, device="rank1", peak_bytes=5e9)),
        rates=(
            rate_row("cpu_time", "forward", 2.0, 1.75),
            rate_row("sm_activity", "forward", 2.0, 0.75),
            rate_row("tensor_activity", "forward", 2.0, 0.25),
            replace(rate_row("sm_activity", "backward", 3.0, 0.5), value=None, interval=None),
        ),
    )
    return again


def bounds(
    best: float | None, interval: tuple[float, float] | None, names: tuple[str, str, str]
) -> dict[str, float]:
    """An estimate and the ends of its interval under three names; what is None is left out."""
    values = (best, *(interval or (None, None)))
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def exactly(expected: dict[str, float]) -> object:
    return pytest.approx(expected, rel=1e-12, abs=0.0)


def is_of(row: SourceRow, *kinds: str) -> bool:
    """Whether a device's name, without its node and number, is one of some words."""
    return re.sub(r"\d+$", "", row.device.rpartition("/")[2]) in kinds


def sum_or_none(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def all_energy_j(report: Report) -> float | None:
    return sum_or_none((report.total.energy_j, report.total.modelled_energy_j))


def all_co2e_g(report: Report) -> float | None:
    return sum_or_none((report.total.co2e_g, report.total.modelled_co2e_g))


def totals_of(report: Report, names: tuple[str, ...]) -> dict[str, float]:
    total = report.total
    values = (total.co2e_g, total.modelled_energy_j, total.modelled_co2e_g, total.coverage)
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}
