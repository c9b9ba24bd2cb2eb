"""Images begin small and grow: early steps cost what small images cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch.nn.functional import interpolate
from torch.utils._pytree import tree_leaves, tree_map

from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base, rising

_IMAGE_AXES = 4  # samples, channels, height, width


@dataclass(frozen=True)
class Resizing(Base):
    """Height and width are ``scale`` of the data's, then grow, and are the data's from ``full`` on.

    ``delay`` and ``full`` are shares of the samples; in between sizes grow linearly, in steps of
    ``multiple`` pixels. Every tensor of a batch with four axes and floating-point values is an
    image; it is interpolated bilinearly, with antialiasing. The model must take images of any size.
    Progressive resizing, Howard 2018; the defaults are those of Composer.
    """

    name: ClassVar[str] = "resizing"

    scale: float = 0.5
    delay: float = 0.5
    full: float = 0.8
    multiple: int = 4

    def plan(self, plan: Plan) -> Plan:
        if not 0 < self.scale < 1:
            raise TechniqueRefused(f"resizing: scale={self.scale}: above 0 and below 1")
        if not 0 <= self.delay <= self.full <= 1 or self.full == 0:
            raise TechniqueRefused(
                f"resizing: delay={self.delay}, full={self.full}: shares of the samples, the "
                "smaller one first, full above 0"
            )
        if self.multiple < 1:
            raise TechniqueRefused(f"resizing: multiple={self.multiple} pixels: at least 1")
        return replace(plan, batches=(*plan.batches, self._resized))

    def predicts(self, plan: Plan) -> str:
        pixels = self.scale**2
        return f"{pixels:.0%} of the pixels up to {self.delay:.0%} of the samples, all from " + (
            f"{self.full:.0%} on; memory as before"
        )

    def _resized(self, batch: Any, done: float) -> Any:
        scale = rising(self.scale, self.delay, self.full, done)
        if not any(map(_is_image, tree_leaves(batch))):
            raise TechniqueRefused(
                "resizing: a batch holds no image: no floating-point tensor of samples, channels, "
                "height and width"
            )
        if scale == 1:
            return batch

        def smaller(leaf: Any) -> Any:
            if not _is_image(leaf):
                return leaf
            size = [self._length(length, scale) for length in leaf.shape[2:]]
            return interpolate(leaf, size, mode="bilinear", antialias=True)

        return tree_map(smaller, batch)

    def _length(self, length: int, scale: float) -> int:
        """The multiple of pixels nearest to a share of a length, not above the length."""
        return min(length, max(1, round(length * scale / self.multiple)) * self.multiple)


def _is_image(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.ndim == _IMAGE_AXES and leaf.is_floating_point()
