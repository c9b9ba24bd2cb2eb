"""Opens a stored run for analysis, from the recorder's summary where that is enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..model import RunStatus
from ..report.model import RateRow
from ..report.serialization import to_dict
from ..store.reader import RunReader
from ..store.run_fields import RunFields
from ..store.thinned import thinned_until_ns
from . import device_energy
from .base import RunAnalysis
from .carbon_and_price import Tariffs
from .from_samples import MOST_BYTES, AnalysisFromSamples, sample_bytes
from .from_summary import AnalysisFromSummary
from .group import GroupAnalysis
from .rates import rates
from .totals import totals


def open_analyses(path: Path) -> list[RunAnalysis]:
    """One for each host of a run. Raises StoreError, StoreVersionError."""
    return [open_analysis(host) for host in RunReader(path).hosts()]


def open_analysis(
    reader: RunReader, *, recompute: bool = False, part_s: tuple[float, float] | None = None
) -> RunAnalysis:
    """What the recorder of one host summed up if that is enough, else all samples and edges.

    A run whose raw data were thinned is not recomputed if its recorder summed it up.

    Raises:
        UsageError: that is no part of the run.
        StoreError: it cannot be read.
    """
    if reader.training is not None:
        return GroupAnalysis(reader.store).training(reader.training, part_s)
    until_ns = thinned_until_ns(reader)
    analysis: RunAnalysis | None = None
    refused = recompute and part_s is None and until_ns is not None
    whole = part_s is None and (refused or not recompute)
    if whole and reader.status is not RunStatus.RUNNING:
        analysis = AnalysisFromSummary.open(reader)
    if analysis is None:
        analysis, refused = (AnalysisFromSamples(reader, recompute=recompute, part_s=part_s), False)
    if until_ns is not None and analysis.run[0] < until_ns:
        analysis.thinned_until_ns, analysis.recompute_refused = until_ns, refused
    return analysis


def open_samples(reader: RunReader) -> AnalysisFromSamples:
    """All samples and edges of a run, or of one training of a group. Raises StoreError."""
    if reader.training is not None:
        return GroupAnalysis(reader.store).training(reader.training)
    return AnalysisFromSamples(reader)


def glance(path: Path, node: str | None = None) -> RunFields | None:
    """What a list of runs shows of a run, or of one of its hosts.

    ``total`` as in the report, sums of ``logged`` samples and tokens, mean ``power`` in a few bins.
    None if all samples of a long run had to be read for it.

    Raises:
        StoreError: it cannot be read.
    """
    reader = RunReader(path, node)
    analysis: RunAnalysis | None = AnalysisFromSummary.open(reader)
    if analysis is None:
        if sample_bytes(reader) > MOST_BYTES:
            return None
        analysis = AnalysisFromSamples(reader)
    logged = analysis.values()
    return {
        "total": to_dict(totals(analysis, Tariffs())[0]),
        "logged": {name: logged[name].sum for name in ("samples", "tokens") if name in logged},
        "power": device_energy.sketch(analysis.devices, analysis.run),
    }


def rates_of(path: Path) -> list[RateRow]:
    """The report's ``rates`` alone. Raises StoreError, StoreVersionError."""
    analyses = open_analyses(path)
    return [
        row
        if len(analyses) == 1 or row.device.startswith("rank")  # numbered over all hosts
        else replace(row, device=f"{analysis.reader.node}/{row.device}")
        for analysis in analyses
        for row in rates(analysis)
    ]
