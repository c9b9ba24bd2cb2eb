"""What is known of a watched run when it begins."""

from __future__ import annotations

import sys

from ..store.run_fields import StartFields
from .jobs.batch_job import scheduler_fields
from .names import run_name
from .options import WatchOptions


def start_fields(options: WatchOptions, dashboard: int | None) -> StartFields:
    """Fields of its run.json.

    Args:
        options: of ``watch()``.
        dashboard: the port that it is served on.
    """
    fields: StartFields = {
        "name": options.name or run_name(sys.argv[0]),
        "country": options.country,
        "config": options.config,
        "data": options.data or "unknown",
        "target": options.target,
        "prometheus": options.prometheus,
        "dashboard": dashboard,
        "scheduler": scheduler_fields(),
    }
    if options.simulate is not None:
        fields["simulated"] = True
    return fields
