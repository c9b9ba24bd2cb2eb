"""Which stacks an ablation trains, and in which order, so that drift cancels."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import TechniqueRefused, UsageError
from ..stack import Stack, discover
from ..stack_text import make, read, write
from .shapley import EXACT, Set, orders, sampled_orders

NO_OP = "no-op"
DESIGNS = ("cumulative", "leave-one-out", "shapley")
_ORDERS = 8  # sampled per block where there are too many


@dataclass(frozen=True, slots=True)
class Arm:
    """A stack that is trained; ``name`` is unique within a design."""

    name: str
    techniques: Set

    @property
    def stack(self) -> str:
        """The techniques as ``--stack`` takes them."""
        return stack_text(self.techniques)


@dataclass(frozen=True, slots=True)
class Design:
    """Techniques in the order given, the kind of design, seed blocks.

    Techniques are texts as in a stack's name: ``precision:dtype=fp16``.
    """

    kind: str
    techniques: tuple[str, ...]
    blocks: int
    seed: int = 0

    @classmethod
    def of(cls, kind: str, techniques: Sequence[str], blocks: int, seed: int = 0) -> Design:
        """Check what a command line gives. Raises UsageError if it cannot be run."""
        if kind not in DESIGNS:
            raise UsageError(f"no design {kind!r}: choose from {', '.join(DESIGNS)}")
        if not techniques:
            raise UsageError("name the techniques: --techniques schedule,precision")
        if blocks < 1:
            raise UsageError("--blocks: at least 1, and 3 before anything can be called a gain")
        texts = [canonical(text) for text in techniques]
        if len({text.partition(":")[0] for text in texts}) != len(texts):
            raise UsageError("a technique is named twice: leave one out")
        Stack.of(stack_text(texts))  # raises TechniqueRefused where they do not go together
        design = cls(kind, tuple(texts), blocks, seed)
        design.arms(0)
        return design

    @property
    def exact(self) -> bool:
        """Whether Shapley values go through all orders."""
        return len(self.techniques) <= EXACT

    def joining(self, block: int) -> list[tuple[str, ...]]:
        """Orders of joining that a block's Shapley values are averaged over.

        Raises:
            UsageError: no order passes through stacks that can run.
        """
        if self.exact:
            valid_orders = orders(self.techniques, valid)
            if not valid_orders:
                raise UsageError("no order of these techniques passes through stacks that can run")
            return valid_orders
        try:
            return sampled_orders(
                self.techniques, valid, _ORDERS, random.Random(f"{self.seed} orders {block}")
            )
        except ValueError as error:
            raise UsageError(f"{error}: fewer techniques, or another design") from None

    def arms(self, block: int) -> list[Arm]:
        """The arms of a block, baseline and no-op first. Raises UsageError."""
        sets: list[Set] = []
        if self.kind == "cumulative":
            sets = [frozenset(self.techniques[:n]) for n in range(1, len(self.techniques) + 1)]
            for subset in sets:
                Stack.of(stack_text(subset))  # raises TechniqueRefused, and says why
        elif self.kind == "leave-one-out":
            full = frozenset(self.techniques)
            sets = [full, *(full - {name} for name in self.techniques if valid(full - {name}))]
        else:
            passed = {
                frozenset(order[:n])
                for order in self.joining(block)
                for n in range(1, len(order) + 1)
            }
            sets = sorted(passed, key=lambda subset: (len(subset), sorted(subset)))
        named = {
            subset: Arm("+".join(name for name in self.techniques if name in subset), subset)
            for subset in sets
            if subset
        }
        return [Arm("baseline", frozenset()), Arm(NO_OP, frozenset()), *named.values()]

    def order(self, block: int) -> list[Arm]:
        """The arms of a block in the random order of its trials; each call gives the same order."""
        arms = self.arms(block)
        random.Random(f"{self.seed} block {block}").shuffle(arms)
        return arms


def valid(techniques: Set) -> bool:
    """Whether a stack of these can be made."""
    try:
        Stack.of(stack_text(techniques))
    except TechniqueRefused:
        return False
    return True


def stack_text(techniques: Iterable[str]) -> str:
    """As ``--stack`` takes it; it has no comma, so that runs can be named after it."""
    return "+".join(sorted(techniques)) or "baseline"


def canonical(text: str) -> str:
    """One technique as a stack's name writes it. Raises UsageError."""
    name, options = read(text)
    available = discover()
    if name not in available:
        raise UsageError(
            f"no technique is called {name!r}; there are: {', '.join(sorted(available))}"
        )
    return write(make(available[name], options))
