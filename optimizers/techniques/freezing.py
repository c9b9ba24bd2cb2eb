"""Layers at the front of the model are trained at first only: no backward passes them later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import nn

from ..errors import TechniqueRefused
from ..plan import Freezing, Plan
from ..technique import EXCHANGES, Base


@dataclass(frozen=True)
class LayerFreezing(Base):
    """From ``start``, a share of the samples, the first ``layers`` (a share) are no longer trained.

    Layers are the modules that own parameters, in the order in which they were registered, which
    should be the one in which they run: a layer that runs after a trained one still has to pass
    gradients on. A parameter that a later layer uses as well, such as a tied embedding, is trained
    to the end. Norms and dropout do in a forward what they did. Frozen parameters stay frozen after
    ``fit``. After Brock et al. 2017 (FreezeOut), but all layers at once.
    """

    name: ClassVar[str] = "freezing"
    # Exchanges keep what they have not sent by the place of a parameter among those trained; a
    # compiled model would be compiled again in the middle of the training.
    conflicts: ClassVar[frozenset[str]] = EXCHANGES | {"compile", "zero"}

    start: float = 0.5
    layers: float = 0.5

    def plan(self, plan: Plan) -> Plan:
        if not 0 <= self.start < 1:
            raise TechniqueRefused(
                f"freezing: start={self.start}: a share of the samples, from 0 to below 1"
            )
        if not 0 < self.layers < 1:
            raise TechniqueRefused(
                f"freezing: layers={self.layers}: a share of the layers, above 0 and below 1"
            )
        return replace(plan, freezing=Freezing(self.start, self.layers))

    def predicts(self, plan: Plan) -> str:
        return (
            f"no backward, gradient or step of the first {self.layers:.0%} of the layers after "
            f"{self.start:.0%} of the samples; some quality"
        )


def front(model: nn.Module, share: float) -> list[nn.Parameter]:
    """Trained parameters of the first layers that no other layer uses.

    Raises:
        TechniqueRefused: there are none.
    """
    layers = [own for module in model.modules() if (own := list(module.parameters(recurse=False)))]
    count = int(share * len(layers))
    later = {id(parameter) for own in layers[count:] for parameter in own}
    by_id = {
        id(parameter): parameter
        for own in layers[:count]
        for parameter in own
        if parameter.requires_grad and id(parameter) not in later
    }
    if not by_id:
        raise TechniqueRefused(
            f"freezing: the first {share:.0%} of the model's {len(layers)} layers have no trained "
            "parameter of their own: raise layers or leave freezing out"
        )
    return list(by_id.values())
