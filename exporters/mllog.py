"""A power log in the style of MLPerf Training's ``:::MLLOG`` lines.

It is not an MLPerf power result: those are measured at the node's supply, with all nodes and the
interconnect included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from probe.model import Provenance
from probe.report.model import JsonValue

from ._shared.run import ExportRefused, StoredRun, write_whole

WARNING = (
    "device meters only, not the node's supply: MLLOG-style, not a valid MLPerf power measurement"
)


@dataclass(frozen=True, slots=True)
class MlLog:
    """Power readings as MLLOG lines, with the warning that these are not MLPerf's."""

    name: ClassVar[str] = "mllog"
    output: ClassVar[str] = "{id}.mllog.txt"

    def export(self, run: StoredRun, output: Path) -> str:
        report = run.report
        measured = [row for row in report.power if row.provenance is Provenance.MEASURED]
        if not measured:
            raise ExportRefused(f"{run.id} has no measured power: `probe doctor` says why")
        step_s = min(row.step_s for row in measured)
        begin_ms = 1e3 * run.begin_s
        meta: dict[str, JsonValue] = {"file": "phasewatt", "lineno": 0}
        lines = [
            _line(
                begin_ms,
                "power_measurement_start",
                begin_ms / 1e3,
                meta | {"warning": WARNING, "run": run.id},
            )
        ]
        for row in measured:
            for number, watts in enumerate(row.power_w):
                if watts is not None:
                    at = begin_ms + 1e3 * (row.begin_s + (number + 1) * row.step_s)
                    lines.append(
                        _line(
                            at,
                            "power_reading",
                            watts,
                            meta
                            | {
                                "node": report.run.host,
                                "device": row.device,
                                "seconds": row.step_s,
                            },
                        )
                    )
        end_ms = begin_ms + 1e3 * report.run.duration_s
        lines.append(_line(end_ms, "power_measurement_stop", end_ms / 1e3, meta))
        write_whole(output, "\n".join(lines) + "\n")
        return f"{output}: a reading every {step_s:.3g} s; {WARNING}"


def _line(time_ms: float, key: str, value: float, metadata: Mapping[str, JsonValue]) -> str:
    content = {
        "namespace": "",
        "time_ms": round(time_ms),
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": metadata,
    }
    return f":::MLLOG {json.dumps(content)}"


EXPORTER = MlLog()
