"""What a training process writes of itself into the run."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

from ..instrument import PhaseEngine
from ..redact import redact_text
from .joining import ended_by_parent

if TYPE_CHECKING:
    from ..store.run_fields import ProcessFields


def process_info(engine: PhaseEngine) -> ProcessFields:
    """The torch version, the model, warnings, overhead and counted operations of this process."""
    torch = sys.modules.get("torch")
    counted = engine.step_roofline
    return {
        "torch": str(getattr(torch, "__version__", "unknown")),
        "model_hash": engine.parameters_hash or "unknown",
        "model_found": engine.model_found or "unknown",
        "warnings": [redact_text(line) for line in engine.all_warnings()],
        "overhead": dataclasses.asdict(engine.overhead()),
        "roofline": None if counted is None else counted.to_dict(),
        "ended_by_parent": ended_by_parent() or None,
    }
