"""The promises of the project, by area; each with how it is shown at full size."""

from . import gains, handing_on, joules, seeing, spine, training
from ._showing import Figure, Item

ITEMS = [*spine.ITEMS, *joules.ITEMS, *training.ITEMS, *handing_on.ITEMS, *gains.ITEMS,
         *seeing.ITEMS]

__all__ = ["ITEMS", "Figure", "Item"]
