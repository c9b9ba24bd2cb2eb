"""What the first run.json says, of a run and of a training below `probe run`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import cast

from ..clock import Anchor
from ..errors import StoreError
from ..model import SCHEMA_VERSION, RunStatus
from ..redact import redact_command, redact_config
from . import files, layout
from .processes import boot_id, pid_namespace
from .run_fields import RunFields, StartFields

LARGEST_CONFIG_BYTES = files.JSON_BYTES // 2  # the recorder adds to run.json


def new_run_file(fields: StartFields) -> RunFields:
    """The content of the run.json of what begins now, in this process.

    Args:
        fields: further ones, which win; secrets are taken out of ``command`` and ``config``.

    Raises:
        StoreError: they are too large to be kept.
    """
    anchor = Anchor.now()
    value: RunFields = {
        "schema": SCHEMA_VERSION,
        "status": RunStatus.RUNNING,
        "started": datetime.fromtimestamp(anchor.wall_ns / 1e9, tz=UTC).isoformat(),
        "anchor": {"monotonic_ns": anchor.monotonic_ns, "wall_ns": anchor.wall_ns},
        "begin_ns": anchor.monotonic_ns,
        "host": layout.node_name(),
        "boot_id": boot_id(),
        "pid_namespace": pid_namespace(),
        "python": sys.version.split()[0],
        "command": list(sys.argv),
    }
    value |= cast("RunFields", fields)
    value["command"] = redact_command(value["command"])
    value["config"] = redact_config(value.get("config"))
    size = len(json.dumps(value))
    if size > LARGEST_CONFIG_BYTES:
        raise StoreError(
            f"config=… is too large to be kept ({size >> 10} KiB, at most "
            f"{LARGEST_CONFIG_BYTES >> 10}): give the settings that matter"
        )
    return value
