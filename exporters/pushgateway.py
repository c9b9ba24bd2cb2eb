"""Prometheus' pushgateway: final figures of a job that was too short to be scraped.

A gateway keeps what was pushed until it is deleted. Only final figures go there, grouped by run,
so that a second push of the same run replaces the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.error import HTTPError, URLError

from prometheus_client import push_to_gateway

from probe.redact import redact_text

from ._shared.run import ExportRefused, StoredRun
from .prometheus import registry_of

JOB = "phasewatt"
_TIMEOUT_S = 5.0
_LONGEST = 500  # bytes of an answer


@dataclass(frozen=True, slots=True)
class Pushgateway:
    """Final figures pushed to a Prometheus pushgateway (--set url=http://host:9091 is needed)."""

    name: ClassVar[str] = "pushgateway"
    output: ClassVar[str] = ""

    url: str = ""

    def export(self, run: StoredRun, output: Path) -> str:
        if not self.url.startswith(("http://", "https://")):
            raise ExportRefused("pushgateway needs to know where: --set url=http://localhost:9091")
        try:
            push_to_gateway(self.url, JOB, registry_of(run), {"run": run.id}, timeout=_TIMEOUT_S)
        except (OSError, URLError, ValueError) as error:
            why = getattr(error, "reason", error)
            if isinstance(error, HTTPError):
                why = f"{why}: {error.read(_LONGEST).decode(errors='replace').strip()}"
            raise ExportRefused(
                redact_text(f"{self.url} did not take the figures: {why}")
            ) from None
        return f"{redact_text(self.url)}: final figures of {run.id} pushed"


EXPORTER = Pushgateway()
