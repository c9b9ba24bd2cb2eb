"""What a reader has to know of what the state machine could not put where it belongs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state_machine import PhaseStateMachine


def notes_of(machine: PhaseStateMachine) -> Iterator[str]:
    """A line for each such thing."""
    if machine.steps_in_backward:
        yield "the optimizer steps inside the backward: its time is in backward"
    raised = machine.steps_raised()
    if raised:
        yield (
            f"{raised} step{'s' if raised > 1 else ''} of an optimizer raised an error: what "
            "followed, until the next batch, forward or backward, counts as optimizer"
        )
    if machine.batches_elsewhere:
        yield (
            f"a thread that does not train loaded {machine.batches_elsewhere} of the batches: "
            "the time of the wait for them is in other, and `data` does not count them"
        )
