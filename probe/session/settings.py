"""What is added to a run's configuration after the run has begun."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..redact import redact_config
from ..store.new_run_file import LARGEST_CONFIG_BYTES
from ..store.run_fields import ProcessFields
from .arguments import plain_config


def with_added(kept: ProcessFields, settings: Any, warn: Callable[[str], None]) -> ProcessFields:
    """The fields of a process with further settings, without secrets. Never raises.

    Args:
        kept: what was added before; a later value of the same name counts.
        settings: a mapping, a dataclass or a namespace.
        warn: hears why nothing was added.
    """
    try:
        together = {**kept.get("settings", {}), **redact_config(plain_config(settings) or {})}
        size = len(json.dumps(together))
        if size <= LARGEST_CONFIG_BYTES:
            return {"settings": together} if together else {}
        warn(f"configure() was given too much to be kept: {size >> 10} KiB")
    except Exception as error:
        warn(f"configure: {type(error).__name__}: {error}")
    return kept
