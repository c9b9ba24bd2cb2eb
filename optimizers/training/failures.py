"""What an error of a training means, in one line."""

from __future__ import annotations

import torch


def out_of_memory(error: BaseException) -> bool:
    """Whether memory was short, on a GPU or on a CPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    message = str(error)  # torch's CPU allocator raises a plain RuntimeError
    return "allocate memory" in message or "not enough memory" in message


def one_line(error: BaseException) -> str:
    """The error's message without line breaks, cut where it gets long."""
    return " ".join(str(error).split())[:160]
