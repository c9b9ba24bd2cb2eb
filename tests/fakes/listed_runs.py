"""The rows of a directory of runs, as a command that ends after them reads and keeps them."""

from __future__ import annotations

from pathlib import Path

from probe.store.catalogue import Catalogue, RunSummary


def summaries(directory: Path) -> list[RunSummary]:
    """A summary per run, newest first; a run that cannot be read has the reason as ``problem``."""
    catalogue = Catalogue(directory)
    rows = catalogue.rows()
    catalogue.keep(now=True)
    return rows
