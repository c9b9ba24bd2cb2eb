"""Grafana: the dashboard over what Prometheus scrapes.

:file:`phasewatt.json` is ready to import; :mod:`build` makes it. A test rebuilds it and runs every
query against the series of a live training.

    probe export RUN --to grafana       the same, with this run and its time chosen
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

from .._shared.run import StoredRun, write_whole

READY = Path(__file__).with_name("phasewatt.json")


@dataclass(frozen=True, slots=True)
class Grafana:
    """Dashboard JSON for Grafana over Prometheus, with this run chosen."""

    name: ClassVar[str] = "grafana"
    output: ClassVar[str] = "{id}.grafana.json"

    def export(self, run: StoredRun, output: Path) -> str:
        content = json.loads(READY.read_text(encoding="utf-8"))
        for variable in content["templating"]["list"]:
            if variable["name"] == "run":
                variable["current"] = {"text": run.id, "value": run.id}
        begin = datetime.fromisoformat(run.report.run.started)
        end = begin + timedelta(seconds=run.report.run.duration_s)
        content["time"] = {"from": begin.isoformat(), "to": end.isoformat()}
        write_whole(output, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        return f"{output}: a dashboard to import into Grafana, over Prometheus"


EXPORTER = Grafana()
