"""The variance of micro-batch gradients, exactly, without keeping one of them (paper eq. 7).

    σ² = 1/(n−1) Σⱼ ‖gⱼ − ḡ‖²,  n = k · ranks

By Σ‖gⱼ − ḡ‖² = Σ‖gⱼ‖² − n‖ḡ‖² only the squares are needed: a hook on every parameter adds the
dot product of the passing gradient with itself. It sees the gradient before ranks are
averaged, under DDP and DeepSpeed alike; ‖ḡ‖ is the norm that clipping needs anyway. Micro-batches
of unequal size have weights wⱼ (their share of the samples): σ² = n/(n−1) (Σ wⱼ‖gⱼ‖² − ‖ḡ‖²), the
same where they are equal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn


def noise(
    variance: float | None, mean_norm: float | None, count: int, samples: int
) -> dict[str, float]:
    """What is logged of a step: σ², and the gradient's noise scale in samples.

    The noise scale tr Σ/‖∇L‖² is the batch beyond which averaging more samples pays little
    (McCandlish et al. 2018, eq. 2.8): σ² of a micro-batch of b samples is tr Σ/b, and ‖∇L‖² is
    ‖ḡ‖² − σ²/n. NaN where it cannot be computed.
    """
    if variance is None or mean_norm is None:
        return {"grad_variance": math.nan, "noise_scale": math.nan}
    signal = mean_norm**2 - variance / count
    scale = variance * (samples / count) / signal if signal > 0 else math.nan
    return {"grad_variance": variance, "noise_scale": scale}


class GradientVariance:
    """Measures σ² of the steps between :meth:`arm` and :meth:`result`.

    ``spent_s`` is what this took since :meth:`arm`, in seconds of this process.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], ranks: int = 1):
        self._ranks = ranks
        self._squares: list[torch.Tensor] = []
        self._sums: list[torch.Tensor] = []
        self._armed = False
        self._parameters = [p for p in parameters if p.requires_grad]
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        self.spent_s = 0.0

    def arm(self) -> None:
        """A step begins; hooks that are not there are set."""
        begin = time.perf_counter()
        self._armed = True
        self._squares, self._sums = [], []
        if not self._handles:
            self._handles = [
                # Some may be frozen by now.
                parameter.register_hook(self._saw)
                for parameter in self._parameters
                if parameter.requires_grad
            ]
        self.spent_s = time.perf_counter() - begin

    def _saw(self, gradient: torch.Tensor) -> None:
        if self._armed and gradient.layout is torch.strided:
            begin = time.perf_counter()
            flat = gradient.detach().reshape(-1)
            if flat.dtype in (torch.float16, torch.bfloat16):
                flat = flat.float()
            self._squares.append(torch.dot(flat, flat))
            self.spent_s += time.perf_counter() - begin

    def micro_batch(self, weight: float, factor: float) -> None:
        """A micro-batch's backward is over.

        Args:
            weight: its share of the step's samples over all ranks.
            factor: what its loss was multiplied by (share, loss scale).
        """
        begin = time.perf_counter()
        if self._squares:
            square = torch.stack(self._squares).to(torch.float64).sum()
            self._sums.append(square * (weight / factor**2))
            self._squares = []
        self.spent_s += time.perf_counter() - begin

    def result(self, mean_norm: float) -> float | None:
        """σ² of a micro-batch's gradient; None if it cannot be computed (n < 2, not finite).

        Args:
            mean_norm: ‖ḡ‖ of the step, over all ranks, loss scale undone, before clipping.
        """
        self._armed = False
        count = len(self._sums) * self._ranks
        if not self._sums:
            return None
        total = torch.stack(self._sums).sum()
        if self._ranks > 1:
            dist.all_reduce(total)
        if count < 2:
            return None
        variance = count / (count - 1) * (float(total) - mean_norm**2)
        return max(variance, 0.0) if math.isfinite(variance) else None

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
