"""Bytes that gradients of this rank put on the wire, counted where they are sent.

A ring all-reduce of N bytes sends 2 N (R−1)/R per rank, an all-gather N (R−1): what is counted is
the payload N, which is what compression changes, and it is called that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Hook = Callable[[Any, Any], torch.futures.Future[torch.Tensor]]


@dataclass
class Wire:
    """Payload of collectives, and its size without compression, in bytes."""

    sent: int = 0
    whole: int = 0

    def counted(self, hook: Hook, sent: Callable[[Any, Any], int]) -> Hook:
        """``hook`` with its traffic counted; ``sent(state, bucket)`` is what it sends."""

        def counting(state: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
            buffer = bucket.buffer()
            self.whole += buffer.numel() * buffer.element_size()
            self.sent += sent(state, bucket)
            return hook(state, bucket)

        counting.__annotations__ = {}  # DDP compares them with classes, ours are strings
        return counting
