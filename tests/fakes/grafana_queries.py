"""The Prometheus expressions of the Grafana dashboard that is shipped."""

from __future__ import annotations

import json

from exporters.grafana import READY


def queries() -> list[str]:
    """All of them, as Grafana would send them but for its variables."""
    panels = json.loads(READY.read_text(encoding="utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]
