"""Stacks that paid where they were measured, by device and kind of model.

They were chosen by ``probe card`` on one set of seeds and judged on others by
``python -m benchmarks.training.recommended``, whose figures are in docs/CARDS.md.
"""

from __future__ import annotations

from .errors import UsageError

STACKS = {
    ("cpu", "convolutional"): "channels_last,precision,schedule_free",
    ("cpu", "transformer"): "muon(lr=0.02),precision",
}


def stack_text(device: str, kind: str) -> str:
    """The stack as ``Stack.of`` reads it.

    Args:
        device: ``cpu``.
        kind: of model: ``convolutional`` or ``transformer``.

    Raises:
        UsageError: nothing was measured for it.
    """
    try:
        return STACKS[device, kind]
    except KeyError:
        measured = ", ".join(f"{kind} on {device}" for device, kind in STACKS)
        raise UsageError(
            f"no stack was measured for a {kind} model on {device} (only {measured}): "
            "measure one with probe card"
        ) from None
