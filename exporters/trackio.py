"""trackio: ``energy/*`` in its local database; ``TRACKIO_DIR=… trackio show`` displays it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from ._shared.run import ExportRefused, StoredRun
from ._shared.scalars import plain, scalars

# trackio takes its directory from the environment when it is imported: so it runs in a subprocess.
_WRITE = """
import json, sys
from trackio import SQLiteStorage
content = json.load(sys.stdin)
project, name = content["project"], content["name"]
if name in SQLiteStorage.get_runs(project):
    SQLiteStorage.delete_run(project, name)
SQLiteStorage.bulk_log(project, name, content["rows"], steps=content["steps"],
                       timestamps=content["times"], config=content["config"])
"""


@dataclass(frozen=True, slots=True)
class Trackio:
    """Metrics energy/* in trackio's local database; runs of other names in it are kept."""

    name: ClassVar[str] = "trackio"
    output: ClassVar[str] = "trackio"

    project: str = "phasewatt"

    def export(self, run: StoredRun, output: Path) -> str:
        if importlib.util.find_spec("trackio") is None:
            raise ExportRefused("trackio is needed: pip install trackio")
        logged = scalars(run)
        rows = [*logged.rows, logged.final]
        output.mkdir(parents=True, exist_ok=True)
        content = {
            "project": plain(self.project),
            "name": plain(f"{run.name} {run.id}"),
            "config": dict(logged.config),
            "steps": [row.step for row in rows],
            "times": [datetime.fromtimestamp(row.wall_s, UTC).isoformat() for row in rows],
            "rows": [dict(row.values) for row in rows],
        }
        done = subprocess.run(
            [sys.executable, "-P", "-c", _WRITE],  # -P: no module of the working directory
            input=json.dumps(content),
            text=True,
            capture_output=True,
            check=False,
            timeout=120,
            env=os.environ | {"TRACKIO_DIR": str(output.resolve())},
        )
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise ExportRefused(f"trackio did not take it: {why}")
        return f"{output}: {logged.counts}, for TRACKIO_DIR={output} trackio show"


EXPORTER = Trackio()
