"""The report of a stored run: store → analysis → :class:`~probe.report.model.Report`.

This is where they meet: :mod:`probe.store` knows nothing of joules per phase,
:mod:`probe.attribution` and :mod:`probe.report.formats` know nothing of files.
"""

from __future__ import annotations

from pathlib import Path

from ..group_model import GroupReport
from ..model import Report


def report_of(
    run: Path,
    *,
    recompute: bool = False,
    part_s: tuple[float, float] | None = None,
    intensity: str | None = None,
    price: str | None = None,
) -> Report | GroupReport:
    """Read and attribute a run directory.

    Args:
        recompute: go back to raw spans and samples, whatever the recorder has summed up.
        part_s: only what lies between these seconds of the run.
        intensity: g CO2e per kWh: a number, or a CSV file of a time series (PROBE_INTENSITY).
        price: per kWh: a number, perhaps with a currency (``0.31 EUR``), or a CSV file
            (PROBE_PRICE).

    Raises:
        UsageError: the part lies outside the run, or a tariff cannot be read.
        StoreError, StoreVersionError: the run cannot be read.
    """
    from ...store.files import read_run_file

    meta = read_run_file(run)
    if meta.get("recorded") is False and part_s is None:
        from .brief import brief

        return brief(run, meta)
    from ...analysis.carbon_and_price import Tariffs
    from ...store.trainings import is_group, place_of, single
    from .report import build

    tariffs = Tariffs.given(intensity, price)
    if place_of(run) is None and is_group(run):
        from .group import build_group

        if part_s is not None:
            single(run)  # a part is one training's
        return build_group(run, tariffs=tariffs)
    return build(run, recompute=recompute, part_s=part_s, tariffs=tariffs)


def run_report(run: Path) -> Report:
    """The report of a run that is no group. Raises UsageError for a group, else StoreError."""
    report = report_of(run)
    if isinstance(report, GroupReport):
        from ...store.trainings import single

        single(run)
        raise AssertionError(f"{run} is a group")  # single() has raised
    return report
