"""What a technique is. One file each; third parties add theirs by entry point."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from .errors import TechniqueRefused
from .plan import Plan

# These replace DDP's all-reduce: at most one in a stack, and none under ZeRO.
EXCHANGES = frozenset(
    {"compression", "hierarchical", "int8", "local_sgd", "onebit", "powersgd", "topk"}
)


@runtime_checkable
class Technique(Protocol):
    """A pure step from plan to plan, and what is claimed of it.

    ``name`` is unique; ``requires`` and ``conflicts`` name others; ``after`` those whose changes
    must be in the plan before. ``equation`` is the paper's, or "". ``predicts`` says in a few words
    what should change; what it cannot know before a run it does not claim.
    """

    name: ClassVar[str]
    equation: ClassVar[str]
    requires: ClassVar[frozenset[str]]
    conflicts: ClassVar[frozenset[str]]
    after: ClassVar[frozenset[str]]

    def plan(self, plan: Plan) -> Plan:
        """The plan with this technique in it.

        Raises:
            TechniqueRefused: it cannot be done here; one line says why.
        """

    def predicts(self, plan: Plan) -> str:
        """What should change against the plan without it."""


class Base:
    """Defaults of a technique: no equation, no requirement, no conflict, no order."""

    equation: ClassVar[str] = ""
    requires: ClassVar[frozenset[str]] = frozenset()
    conflicts: ClassVar[frozenset[str]] = frozenset()
    after: ClassVar[frozenset[str]] = frozenset()


def only_exchange(name: str) -> frozenset[str]:
    """What a technique called ``name`` conflicts with if it replaces DDP's all-reduce."""
    return EXCHANGES - {name} | {"zero"}


def rising(low: float, begin: float, end: float, done: float) -> float:
    """``low`` up to a share ``begin`` of the samples, then a line to 1 at ``end``, where it stays.

    Args:
        done: share of the samples that is consumed.
    """
    if done >= end:
        return 1.0
    return low if done <= begin else low + (1 - low) * (done - begin) / (end - begin)


def refuse_scaled_loss(name: str, plan: Plan) -> None:
    """Raises TechniqueRefused if the loss is scaled by a factor that changes.

    What a rank keeps of earlier steps would be of another scale, or not finite for good.
    """
    if plan.precision.scaled:
        raise TechniqueRefused(
            f"{name} does not go with fp16 precision: the loss scale changes, and what ranks keep "
            "of earlier steps does not; use bf16"
        )
