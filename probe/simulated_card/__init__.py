"""A card that does not exist, under the real ``pynvml``: for ``probe demo`` and nothing else.

A run whose run.json says ``"simulated": true`` is measured with this card and with no other meter.
Nothing else brings it: no variable, no argument of ``watch()``. So no run can have it without
saying so. :func:`is_simulated` tells such a card by its UUID.
"""

from __future__ import annotations

UUID_PREFIX = "SIMULATED-"
NAME = "SIMULATED card (phasewatt demo)"
WORD = "SIMULATED"
"""How each text that has figures of such a run begins."""
LINE = f"{WORD}: the card of this run does not exist; `probe demo` made its power up"


def is_simulated(uuid: str) -> bool:
    """Whether a device with this UUID is the simulated one."""
    return uuid.startswith(UUID_PREFIX)
