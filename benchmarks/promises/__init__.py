"""The promises of the project, by area; each with how it is shown at full size."""

from . import gains, handing_on, jobs, joules, seeing, spine, training
from ._showing import Figure, Item

ITEMS = [*spine.ITEMS, *joules.ITEMS, *training.ITEMS, *handing_on.ITEMS, *gains.ITEMS,
         *seeing.ITEMS, *jobs.ITEMS]

__all__ = ["ITEMS", "Figure", "Item"]
