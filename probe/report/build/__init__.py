"""The report of one run: store → analysis → the report's JSON.

This is where they meet: :mod:`probe.store` knows nothing of joules per phase,
:mod:`probe.attribution` and :mod:`probe.report.formats` know nothing of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..formats import render
from ..group import render_group


@dataclass(frozen=True, slots=True)
class Report:
    """What is known of a run or a group; ``data`` is the report's JSON, ``str()`` the text."""

    data: dict[str, Any]

    @classmethod
    def of(
        cls,
        run: Path,
        *,
        recompute: bool = False,
        part_s: tuple[float, float] | None = None,
        intensity: str | None = None,
        price: str | None = None,
    ) -> Report:
        """Read and attribute a run directory; ``recompute`` goes back to the raw data.

        Args:
            part_s: only what lies between these seconds of the run.
            intensity: g CO2e per kWh: a number, or a CSV file of a time series (PROBE_INTENSITY).
            price: per kWh, likewise, perhaps with a currency: ``0.31 EUR`` (PROBE_PRICE).

        Raises:
            UsageError: that is no part of the run, or no tariff.
            StoreError, StoreVersionError: it cannot be read.
        """
        from ...store.files import read_run_file

        meta = read_run_file(run)
        if meta.get("recorded") is False and part_s is None:
            from .brief import brief

            return cls(brief(run, meta))
        from ...analysis.carbon_and_price import Tariffs
        from ...store.trainings import is_group, place_of, single
        from .report import build

        tariffs = Tariffs.given(intensity, price)
        if place_of(run) is None and is_group(run):
            from .group import build_group

            if part_s is not None:
                single(run)  # a part is one training's
            return cls(build_group(run, tariffs=tariffs))
        return cls(build(run, recompute=recompute, part_s=part_s, tariffs=tariffs))

    @classmethod
    def empty(cls, reason: str) -> Report:
        """A report without figures; ``reason`` is its only warning."""
        from .empty import empty

        return cls(empty(reason))

    def render(self, format: str = "text") -> str | bytes:  # noqa: A002
        """In one of the installed formats. Raises UsageError for another."""
        if "group" in self.data:
            return render_group(self.data, format)
        return render(self.data, format)

    def to_json(self) -> str:
        """The report's JSON as text."""
        return str(self.render("json"))

    def __str__(self) -> str:
        return str(self.render("text"))
