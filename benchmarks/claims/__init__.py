"""The promises of the project, by area; each with how it is shown at full size."""

from . import dashboards, entries, export, gains, joules, multi_rank, recording, training
from .figures import Figure, Item

ITEMS = [
    *recording.ITEMS,
    *joules.ITEMS,
    *training.ITEMS,
    *export.ITEMS,
    *gains.ITEMS,
    *dashboards.ITEMS,
    *multi_rank.ITEMS,
    *entries.ITEMS,
]

__all__ = ["ITEMS", "Figure", "Item"]
