"""Samples of a run that logs none: those that its DataLoader gave to the training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ..ring.layout import LOADED

COUNTS = ("samples", "tokens")  # every rank logs how many it trained itself
# With fewer steps for which something was loaded, batches are trained on more than once. A step
# for which nothing was: its batch was loaded ahead, with that of the step before.
_OF_STEPS = 0.6

T = TypeVar("T")


def with_loaded_samples(
    recorded: Mapping[str, T], records: Callable[[T], int], steps: int
) -> dict[str, T]:
    """What a rank logged, with ``samples`` from its loader where it logged no count.

    Args:
        recorded: by name, :data:`LOADED` among them where a loader was seen.
        records: how many records a value has.
        steps: how many the rank has taken.
    """
    logged = {name: values for name, values in recorded.items() if name != LOADED}
    loaded = recorded.get(LOADED)
    if loaded is None or not logged.keys().isdisjoint(COUNTS):
        return logged
    return {"samples": loaded} | logged if records(loaded) >= _OF_STEPS * steps else logged
