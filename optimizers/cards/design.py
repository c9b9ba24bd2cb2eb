"""What cards need to be trained: a base stack, and the base with one technique each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ablation.design import Arm, Design, canonical, stack_text
from ..errors import UsageError
from ..stack import Stack
from ..stack_text import read

BASE = "base"
_KIND = "alone"


@dataclass(frozen=True, slots=True)
class CardDesign(Design):
    """Each technique alone on the same base; a block is a seed, shared by all arms of it."""

    base: str = "baseline"

    @classmethod
    def asked(cls, techniques: Sequence[str], seeds: int, base: str) -> CardDesign:
        """Check what a command line gives.

        Raises:
            UsageError: it cannot be run; TechniqueRefused where a technique and the base do not go
                together.
        """
        if not techniques:
            raise UsageError("name the techniques: probe card ema precision …")
        if seeds < 1:
            raise UsageError("--seeds: at least 1, and 3 before much can be called a gain")
        texts = [canonical(text) for text in techniques]
        if len(set(texts)) != len(texts):
            raise UsageError("a technique is named twice: leave one out")
        base_stack = Stack.of(base)
        for text in texts:
            name = read(text)[0]
            if name in base_stack:
                raise UsageError(f"{name} is in the base stack {base}: leave it out there")
        design = cls(_KIND, tuple(texts), seeds, base=base_stack.name)
        for arm in design.arms(0):
            Stack.of(arm.stack)  # raises TechniqueRefused
        return design

    def arms(self, block: int) -> list[Arm]:
        """The base, then the base with each technique; the same in every block."""
        words = frozenset() if self.base == "baseline" else frozenset(self.base.split("+"))
        return [Arm(BASE, words), *(Arm(text, words | {text}) for text in self.techniques)]

    def stack_of(self, technique: str) -> str:
        """The stack with this technique, as ``--stack`` takes it."""
        return stack_text(next(arm.techniques for arm in self.arms(0) if arm.name == technique))
