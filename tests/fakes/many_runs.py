"""A directory of very many finished runs: copies of a stored run on eight GPUs.

Each has a name, a day, a host and a configuration of its own, and the small files that a reader of
the list may open.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from probe.store.files import write_json
from probe.store.layout import RUN_FILE
from tests.fixtures.archives import STORED_RUNS, unpack

_KEPT = ("members", "sources.json", "node.json")  # what is copied beside run.json


def store_many_runs(directory: Path, count: int) -> None:
    """So many finished runs below a directory that exists, of 40 names and seven hosts."""
    with tempfile.TemporaryDirectory() as name:
        unpack(STORED_RUNS, Path(name))
        (source,) = Path(name).rglob("*-eight-gpus")
        meta = json.loads((source / RUN_FILE).read_text())
        for number in range(count):
            begun = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=47 * number)
            run = directory / f"{begun:%Y%m%d-%H%M%S}-{number:06x}"
            shutil.copytree(source, run, ignore=_others)
            fields = {
                "id": run.name,
                "name": f"name{number % 40}",
                "started": begun.isoformat(),
                "host": f"host{number % 7}",
                "config": {"lr": number / 1000, "optimizer": {"name": "adam"}},
            }
            write_json(run / RUN_FILE, meta | fields, checked=True)
            os.utime(run, (begun.timestamp(), begun.timestamp()))


def _others(folder: str, names: list[str]) -> list[str]:
    inside = Path(folder).name == "members"
    return [n for n in names if not (inside or n in _KEPT or n.startswith("node-"))]
