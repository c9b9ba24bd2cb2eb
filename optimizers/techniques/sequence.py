"""Sequences begin short and grow: early steps cost what short sequences cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base, rising


@dataclass(frozen=True)
class SequenceLength(Base):
    """Sequences are cut to ``scale`` of the data's length, which grows to all of it at ``full``.

    ``full`` is a share of the samples; lengths grow linearly, in steps of ``multiple`` tokens. The
    longest tensor of a batch with two axes and whole numbers holds the tokens; every tensor whose
    second axis is as long (labels, masks) is cut with it. What is cut off is not trained on: a
    budget of samples is then one of fewer tokens. Li, Zhang & He 2022 (sequence length warm-up).
    """

    name: ClassVar[str] = "sequence"

    scale: float = 0.25
    full: float = 0.3
    multiple: int = 8

    def plan(self, plan: Plan) -> Plan:
        if not 0 < self.scale < 1:
            raise TechniqueRefused(f"sequence: scale={self.scale}: above 0 and below 1")
        if not 0 < self.full <= 1:
            raise TechniqueRefused(
                f"sequence: full={self.full}: a share of the samples, above 0 and up to 1"
            )
        if self.multiple < 1:
            raise TechniqueRefused(f"sequence: multiple={self.multiple} tokens: at least 1")
        return replace(plan, batches=(*plan.batches, self._cut))

    def predicts(self, plan: Plan) -> str:
        tokens = 1 - (1 - self.scale) / 2 * self.full
        return f"{tokens:.0%} of the tokens in as many samples, {self.scale:.0%} in the first step"

    def _cut(self, batch: Any, done: float) -> Any:
        lengths = [leaf.shape[1] for leaf in tree_leaves(batch) if _holds_tokens(leaf)]
        if not lengths:
            raise TechniqueRefused(
                "sequence: a batch holds no tokens: no tensor of samples and places with whole "
                "numbers"
            )
        all_of_it, scale = max(lengths), rising(self.scale, 0.0, self.full, done)
        if scale == 1:
            return batch
        steps = max(1, round(all_of_it * scale / self.multiple))

        def cut(leaf: Any) -> Any:
            has_places = isinstance(leaf, torch.Tensor) and leaf.ndim > 1
            if not has_places or leaf.shape[1] != all_of_it:
                return leaf
            return leaf[:, : steps * self.multiple]

        return tree_map(cut, batch)


def _holds_tokens(leaf: Any) -> bool:
    """True of whole numbers in two axes; a mask has truth values."""
    if not isinstance(leaf, torch.Tensor) or leaf.ndim != 2:
        return False
    return not (leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool)
