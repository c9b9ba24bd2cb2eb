"""OTLP metrics through the OpenTelemetry SDK, with the names of its hardware conventions.

probe export RUN --to otlp                        a file for a collector's otlpjsonfile receiver
probe export RUN --to otlp --set endpoint=http://localhost:4318     the same figures, sent
probe serve runs --otlp http://localhost:4318     live runs, every ten seconds
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from probe.units import NS_PER_S

from .._shared.run import StoredRun, write_whole
from .points import report_points
from .sender import Sender, encoded, metrics_data, resource_of


@dataclass(frozen=True, slots=True)
class Otlp:
    """OTLP metrics: a file, or sent to a collector (--set endpoint=http://host:4318)."""

    name: ClassVar[str] = "otlp"
    output: ClassVar[str] = "{id}.otlp.jsonl"

    endpoint: str = ""

    def export(self, run: StoredRun, output: Path) -> str:
        begin_ns, end_ns = round(run.begin_s * NS_PER_S), round(run.end_s * NS_PER_S)
        points = list(report_points(run.report))
        data = metrics_data(points, resource_of(run.report.run), begin_ns, end_ns)
        if self.endpoint:
            with Sender(self.endpoint) as sender:
                sender.send(data)
            return f"{sender.url}: {len(points)} figures sent"
        from google.protobuf.json_format import MessageToDict

        content = MessageToDict(encoded(data))
        write_whole(output, json.dumps(content, allow_nan=False) + "\n")
        return f"{output}: {len(points)} figures as OTLP JSON"


EXPORTER = Otlp()
